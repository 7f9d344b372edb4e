// Goal: what the fuzzers found stays found, and they are tried a little wherever tests run.
// Method: each file of the corpus, the empty input, and mutations of them with a fixed seed.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "tests/fuzz/fuzz_input.h"

namespace weir::fuzz {
namespace {

constexpr int kMutations = 100'000;
constexpr size_t kMutatedBytesMax = 2048;  // longer files are replayed as they are

std::vector<std::string>* corpus = nullptr;

void RunOne(const std::string& input) {
  // A copy of its own size: the sanitizers see where it ends.
  const std::vector<uint8_t> bytes(input.begin(), input.end());
  LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
}

TEST(FuzzReplay, TheCorpus) {
  RunOne("");
  ASSERT_FALSE(corpus->empty());
  for (const std::string& input : *corpus) RunOne(input);
}

TEST(FuzzReplay, MutationsOfTheCorpus) {
  std::vector<std::string> seeds;
  std::copy_if(corpus->begin(), corpus->end(), std::back_inserter(seeds),
               [](const std::string& input) { return input.size() <= kMutatedBytesMax; });
  ASSERT_FALSE(seeds.empty());
  std::mt19937_64 random(1);
  for (int i = 0; i < kMutations; ++i) {
    std::string input = seeds[random() % seeds.size()];
    for (uint64_t left = 1 + random() % 4; left > 0; --left) {
      const size_t at = random() % (input.size() + 1);
      const std::string& other = seeds[random() % seeds.size()];
      switch (random() % 6) {
        case 0:  // another byte
          if (at < input.size()) input[at] = static_cast<char>(random());
          break;
        case 1:  // another bit
          if (at < input.size()) input[at] = static_cast<char>(input[at] ^ 1 << random() % 8);
          break;
        case 2:  // cut out
          input.erase(at, 1 + random() % 8);
          break;
        case 3:  // doubled
          input.insert(at, input.substr(at, 1 + random() % 16));
          break;
        case 4:  // another's piece
          if (!other.empty()) input.insert(at, other.substr(random() % other.size(), 16));
          break;
        default:  // cut off
          if (random() % 8 == 0) input.resize(at);
      }
    }
    RunOne(input);
  }
}

}  // namespace
}  // namespace weir::fuzz

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  std::vector<std::string> inputs;
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(argc > 1 ? argv[1] : ".")) {
    paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());  // the same mutations everywhere
  for (const std::filesystem::path& path : paths) {
    std::ifstream file(path, std::ios::binary);
    inputs.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  weir::fuzz::corpus = &inputs;
  return RUN_ALL_TESTS();
}
