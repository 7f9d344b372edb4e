// The names of librdkafka's properties, which are known where it is not linked, are its own.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <librdkafka/rdkafka.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <sstream>

#include "common/graph/kafka_configs.h"

namespace weir {
namespace {

// Those of its table that may be given as text.
std::set<std::string> NamesByLibrdkafka() {
  char* text = nullptr;
  size_t size = 0;
  FILE* file = open_memstream(&text, &size);
  rd_kafka_conf_properties_show(file);
  std::fclose(file);
  std::istringstream lines(std::string(text, size));
  std::free(text);
  std::set<std::string> names;
  for (std::string line; std::getline(lines, line);) {
    const size_t bar = line.find('|');
    const std::string name = line.substr(0, line.find(' '));
    if (bar == std::string::npos || name.empty() || name == "Property" || name[0] == '-') continue;
    if (line.find("see dedicated API") == std::string::npos) names.insert(name);
  }
  return names;
}

TEST(KafkaProperties, AreThoseOfLibrdkafka) {
  const std::vector<std::string>& known = KafkaPropertyNames();
  EXPECT_TRUE(std::is_sorted(known.begin(), known.end()));
  std::set<std::string> names = NamesByLibrdkafka();
  ASSERT_GT(names.size(), 100u);
  names.erase("builtin.features");  // tells what the library was built with
  EXPECT_EQ(std::set<std::string>(known.begin(), known.end()), names);
}

}  // namespace
}  // namespace weir
