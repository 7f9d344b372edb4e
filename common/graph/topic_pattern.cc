#include "common/graph/topic_pattern.h"

#include <regex.h>

#include <algorithm>
#include <utility>

#include "common/base/concat.h"

namespace weir {

bool IsTopicName(std::string_view name) {
  constexpr size_t kBytesMax = 249;
  if (name.empty() || name.size() > kBytesMax || name == "." || name == "..") return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  });
}

struct TopicPattern::Expression {
  ~Expression() {
    if (compiled) regfree(&regex);
  }
  regex_t regex = {};
  bool compiled = false;
  bool internal = false;
};

TopicPattern::TopicPattern(std::shared_ptr<const Expression> expression)
    : expression_(std::move(expression)) {}

StatusOr<TopicPattern> TopicPattern::Parse(const std::string& text) {
  auto expression = std::make_shared<Expression>();
  // By itself first: "a)|(b" is none, although it would be one within parentheses.
  regex_t alone;
  int error = regcomp(&alone, text.c_str(), REG_EXTENDED | REG_NOSUB);
  if (error != 0) {
    char why[256];
    regerror(error, &alone, why, sizeof(why));
    return InvalidArgumentError(Concat("'", text, "' is no regular expression: ", why));
  }
  regfree(&alone);
  error = regcomp(&expression->regex, Concat("^(", text, ")$").c_str(), REG_EXTENDED | REG_NOSUB);
  if (text.empty() || error != 0) {
    if (error == 0) regfree(&expression->regex);
    return InvalidArgumentError(
        Concat("'", text, "' is no regular expression that names of topics could match"));
  }
  expression->compiled = true;
  expression->internal = text.starts_with("__") || text.starts_with("^__");
  return TopicPattern(std::move(expression));
}

bool TopicPattern::Matches(const std::string& topic) const {
  if (topic.starts_with("__") && !expression_->internal) return false;
  return regexec(&expression_->regex, topic.c_str(), 0, nullptr, 0) == 0;
}

}  // namespace weir
