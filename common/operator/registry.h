#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/operator/operator.h"
#include "common/operator/sink.h"
#include "common/operator/source.h"

namespace weir {

using OperatorFactory = std::function<std::unique_ptr<Operator>()>;
using SourceFactory = std::function<std::unique_ptr<Source>()>;
struct SinkFactory {
  std::function<std::unique_ptr<Sink>()> sink;
  std::function<std::unique_ptr<Committer>()> committer;
};

// Factories by vertex type: the built-in ones (added by the worker at start) and those of loaded
// job libraries (added by their static initialisers). Filled before tasks run. Thread: thread-safe.
class Registry {
 public:
  static Registry& Global();

  // The first of a doubled type counts; the second is remembered and reported by TakeErrors.
  void AddOperator(std::string type, OperatorFactory factory);
  void AddSource(std::string type, SourceFactory factory);
  void AddSink(std::string type, SinkFactory factory);

  // nullptr when there is none. Pointers stay valid.
  const OperatorFactory* FindOperator(const std::string& type) const;
  const SourceFactory* FindSource(const std::string& type) const;
  const SinkFactory* FindSink(const std::string& type) const;
  std::vector<std::string> OperatorTypes() const;
  // What went wrong in static initialisers since the last call.
  Status TakeErrors();

 private:
  struct State;
  Registry();
  ~Registry();
  std::unique_ptr<State> state_;
};

namespace internal {
struct OperatorRegistration {
  OperatorRegistration(const char* type, OperatorFactory factory) {
    Registry::Global().AddOperator(type, std::move(factory));
  }
};
}  // namespace internal

// In a job library: makes `Class` the operator type `type`.
#define WEIR_OPERATOR(type, Class)                                              \
  static const ::weir::internal::OperatorRegistration weir_operator_##Class##_( \
      type, [] { return std::unique_ptr<::weir::Operator>(new Class()); });

}  // namespace weir
