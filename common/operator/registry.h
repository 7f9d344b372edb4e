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
using CommitterFactory = std::function<std::unique_ptr<Committer>()>;
struct SinkFactory {
  std::function<std::unique_ptr<Sink>()> sink;
  CommitterFactory committer;
};

// Factories by vertex type. The global one holds the built-in types, added by the worker at start.
// Each job library has its own in front of it, filled by the library's static initialisers, so that
// two versions of a library can run in one process. Filled before tasks run. Thread: thread-safe.
class Registry {
 public:
  // What is not found here is looked for in `fallback`, which outlives this one.
  explicit Registry(const Registry* fallback = nullptr);
  ~Registry();
  Registry(const Registry&) = delete;
  Registry& operator=(const Registry&) = delete;

  static Registry& Global();
  // Where static initialisers on this thread register: a job library that is being loaded, else
  // the global one.
  static Registry& Current();

  // Makes `registry` the current one of this thread as long as it lives.
  class Scope {
   public:
    explicit Scope(Registry& registry);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Registry* previous_;
  };

  // The first of a doubled type counts; the second is remembered and reported by TakeErrors.
  void AddOperator(std::string type, OperatorFactory factory);
  // `committer`: of a source that may own committables.
  void AddSource(std::string type, SourceFactory factory, CommitterFactory committer = nullptr);
  void AddSink(std::string type, SinkFactory factory);

  // nullptr when there is none. Pointers stay valid.
  const OperatorFactory* FindOperator(const std::string& type) const;
  const SourceFactory* FindSource(const std::string& type) const;
  const SinkFactory* FindSink(const std::string& type) const;
  // What settles the committables of a sink or source.
  const CommitterFactory* FindCommitter(const std::string& type) const;
  // Operators registered here, without those of the fallback; sorted.
  std::vector<std::string> OperatorTypes() const;
  // What went wrong in static initialisers since the last call.
  Status TakeErrors();

 private:
  struct State;
  const Registry* const fallback_;
  std::unique_ptr<State> state_;
};

namespace internal {
struct OperatorRegistration {
  OperatorRegistration(const char* type, OperatorFactory factory) {
    Registry::Current().AddOperator(type, std::move(factory));
  }
};
}  // namespace internal

// In a job library: makes `Class` the operator type `type`.
#define WEIR_OPERATOR(type, Class)                                                              \
  static const ::weir::internal::OperatorRegistration WEIR_CONCAT(weir_operator_, __COUNTER__)( \
      type, [] { return std::unique_ptr<::weir::Operator>(std::make_unique<Class>()); });

}  // namespace weir
