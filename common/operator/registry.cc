#include "common/operator/registry.h"

#include <mutex>
#include <utility>

#include "common/base/concat.h"

namespace weir {
namespace {

thread_local Registry* current_registry = nullptr;

}  // namespace

struct Registry::State {
  // Says false, and remembers why, when `type` is there already.
  bool Claim(const std::string& type) {
    if (type.empty()) {
      errors.emplace_back("a vertex type is registered with an empty name");
      return false;
    }
    if (operators.count(type) + sources.count(type) + sinks.count(type) == 0) return true;
    errors.push_back(Concat("vertex type '", type, "' is registered twice"));
    return false;
  }

  mutable std::mutex mutex;  // guards all below; map nodes stay where they are
  std::map<std::string, OperatorFactory> operators;
  std::map<std::string, SourceFactory> sources;
  std::map<std::string, SinkFactory> sinks;
  std::map<std::string, CommitterFactory> source_committers;
  std::vector<std::string> errors;
};

Registry::Registry(const Registry* fallback)
    : fallback_(fallback), state_(std::make_unique<State>()) {}
Registry::~Registry() = default;

Registry& Registry::Global() {
  // Never destroyed: job libraries and threads may outlive static destructors.
  static Registry* registry = new Registry();
  return *registry;
}

Registry& Registry::Current() { return current_registry != nullptr ? *current_registry : Global(); }

Registry::Scope::Scope(Registry& registry)
    : previous_(std::exchange(current_registry, &registry)) {}

Registry::Scope::~Scope() { current_registry = previous_; }

void Registry::AddOperator(std::string type, OperatorFactory factory) {
  std::lock_guard<std::mutex> lock(state_->mutex);
  if (state_->Claim(type)) state_->operators.emplace(std::move(type), std::move(factory));
}

void Registry::AddSource(std::string type, SourceFactory factory, CommitterFactory committer) {
  std::lock_guard<std::mutex> lock(state_->mutex);
  if (!state_->Claim(type)) return;
  if (committer) state_->source_committers.emplace(type, std::move(committer));
  state_->sources.emplace(std::move(type), std::move(factory));
}

void Registry::AddSink(std::string type, SinkFactory factory) {
  std::lock_guard<std::mutex> lock(state_->mutex);
  if (state_->Claim(type)) state_->sinks.emplace(std::move(type), std::move(factory));
}

const OperatorFactory* Registry::FindOperator(const std::string& type) const {
  {
    std::lock_guard<std::mutex> lock(state_->mutex);
    auto found = state_->operators.find(type);
    if (found != state_->operators.end()) return &found->second;
  }
  return fallback_ == nullptr ? nullptr : fallback_->FindOperator(type);
}

const SourceFactory* Registry::FindSource(const std::string& type) const {
  {
    std::lock_guard<std::mutex> lock(state_->mutex);
    auto found = state_->sources.find(type);
    if (found != state_->sources.end()) return &found->second;
  }
  return fallback_ == nullptr ? nullptr : fallback_->FindSource(type);
}

const SinkFactory* Registry::FindSink(const std::string& type) const {
  {
    std::lock_guard<std::mutex> lock(state_->mutex);
    auto found = state_->sinks.find(type);
    if (found != state_->sinks.end()) return &found->second;
  }
  return fallback_ == nullptr ? nullptr : fallback_->FindSink(type);
}

const CommitterFactory* Registry::FindCommitter(const std::string& type) const {
  {
    std::lock_guard<std::mutex> lock(state_->mutex);
    auto sink = state_->sinks.find(type);
    if (sink != state_->sinks.end()) return &sink->second.committer;
    auto source = state_->source_committers.find(type);
    if (source != state_->source_committers.end()) return &source->second;
  }
  return fallback_ == nullptr ? nullptr : fallback_->FindCommitter(type);
}

std::vector<std::string> Registry::OperatorTypes() const {
  std::lock_guard<std::mutex> lock(state_->mutex);
  std::vector<std::string> types;
  for (const auto& [type, factory] : state_->operators) types.push_back(type);
  return types;
}

Status Registry::TakeErrors() {
  std::lock_guard<std::mutex> lock(state_->mutex);
  std::string message;
  for (const std::string& error : state_->errors) {
    message += Concat(message.empty() ? "" : "; ", error);
  }
  state_->errors.clear();
  return message.empty() ? Status() : AlreadyExistsError(std::move(message));
}

}  // namespace weir
