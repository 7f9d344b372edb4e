#include "common/operator/job_library.h"

#include <charconv>

#include "common/base/concat.h"
#include "common/base/names.h"

namespace weir {

StatusOr<JobArguments> JobArguments::Parse(const std::vector<std::string>& words) {
  JobArguments arguments;
  for (size_t i = 0; i < words.size(); ++i) {
    const bool dashes = words[i].starts_with("--");
    const std::string word = dashes ? words[i].substr(2) : words[i];
    const size_t equals = word.find('=');
    std::string name = word.substr(0, equals);
    if (name.empty() || (!dashes && equals == std::string::npos)) {
      return InvalidArgumentError(Concat("job argument '", words[i],
                                         "': expected --name value, --name=value or name=value"));
    }
    std::string value;
    if (equals != std::string::npos) {
      value = word.substr(equals + 1);
    } else if (i + 1 < words.size() && !words[i + 1].starts_with("--")) {
      value = words[++i];
    } else {
      return InvalidArgumentError(Concat("job argument '", name, "' has no value: expected --",
                                         name, " value or --", name, "=value"));
    }
    if (!arguments.values_.emplace(name, std::move(value)).second) {
      return InvalidArgumentError(Concat("job argument '", name, "' is there twice"));
    }
  }
  return arguments;
}

const std::string* JobArguments::Ask(const std::string& name) const {
  asked_[name] = true;
  auto found = values_.find(name);
  return found == values_.end() ? nullptr : &found->second;
}

bool JobArguments::has(const std::string& name) const { return Ask(name) != nullptr; }

std::string JobArguments::text(const std::string& name) const {
  if (const std::string* value = Ask(name)) return *value;
  errors_.push_back(Concat("job argument '", name, "' is missing: give it as --", name, " value"));
  return "";
}

std::string JobArguments::text(const std::string& name, const std::string& absent) const {
  const std::string* value = Ask(name);
  return value != nullptr ? *value : absent;
}

int64_t JobArguments::ParseInteger(const std::string& name, const std::string& value) const {
  int64_t integer = 0;
  const char* end = value.data() + value.size();
  auto [rest, error] = std::from_chars(value.data(), end, integer);
  if (error == std::errc() && rest == end) return integer;
  errors_.push_back(Concat("job argument '", name, "' is '", value, "': expected an integer"));
  return 0;
}

int64_t JobArguments::integer(const std::string& name) const {
  if (const std::string* value = Ask(name)) return ParseInteger(name, *value);
  errors_.push_back(Concat("job argument '", name, "' is missing: give it as --", name, " number"));
  return 0;
}

int64_t JobArguments::integer(const std::string& name, int64_t absent) const {
  const std::string* value = Ask(name);
  return value != nullptr ? ParseInteger(name, *value) : absent;
}

Status JobArguments::Check() const {
  std::vector<std::string> known;
  std::string all;
  for (const auto& [name, asked] : asked_) {
    known.push_back(name);
    all += Concat(all.empty() ? "" : ", ", name);
  }
  std::vector<std::string> errors = errors_;
  for (const auto& [name, value] : values_) {
    if (asked_.count(name) != 0) continue;
    const std::string nearest = NearestName(name, known);
    errors.push_back(Concat("unknown job argument '", name, "' (value '", value, "'): ",
                            !nearest.empty() ? Concat("did you mean '", nearest, "'?")
                            : all.empty()    ? std::string("this job takes none")
                                             : Concat("this job takes ", all)));
  }
  std::string message;
  for (const std::string& error : errors) message += Concat(message.empty() ? "" : "; ", error);
  return message.empty() ? Status() : InvalidArgumentError(std::move(message));
}

}  // namespace weir
