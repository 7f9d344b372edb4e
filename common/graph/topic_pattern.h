#pragma once

#include <memory>
#include <string>

#include "common/base/status.h"

namespace weir {

// Whether a string may name a topic: 1 to 249 letters, digits, '.', '_' and '-'; not "." or "..".
bool IsTopicName(std::string_view name);

// An extended regular expression (POSIX) that names of topics match as a whole. Topics of Kafka's
// own, whose names begin with "__", match only a pattern that begins so, too.
// Thread: immutable; shared between copies.
class TopicPattern {
 public:
  // User error: what is wrong with the expression.
  static StatusOr<TopicPattern> Parse(const std::string& text);
  bool Matches(const std::string& topic) const;

 private:
  struct Expression;
  explicit TopicPattern(std::shared_ptr<const Expression> expression);
  std::shared_ptr<const Expression> expression_;
};

}  // namespace weir
