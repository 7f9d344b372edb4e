#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace weir {

// A vector that a call borrows from its thread, with whatever is in it; it goes back at the end and
// to the next borrower first. So the tasks of a thread, however many they are, work in the same
// memory, which stays in the cache. Thread: where it is constructed it is destroyed.
template <typename T>
class ThreadScratch {
 public:
  ThreadScratch() {
    std::vector<std::vector<T>>& spare = Spare();
    if (spare.empty()) return;
    vector_ = std::move(spare.back());
    spare.pop_back();
  }
  ~ThreadScratch() {
    std::vector<std::vector<T>>& spare = Spare();
    if (spare.size() >= kSpareMax || vector_.capacity() * sizeof(T) > kBytesMax) return;
    spare.push_back(std::move(vector_));
  }
  ThreadScratch(const ThreadScratch&) = delete;
  ThreadScratch& operator=(const ThreadScratch&) = delete;

  std::vector<T>& operator*() { return vector_; }
  std::vector<T>* operator->() { return &vector_; }
  const std::vector<T>& operator*() const { return vector_; }
  const std::vector<T>* operator->() const { return &vector_; }

 private:
  // What a thread keeps.
  static constexpr size_t kSpareMax = 4;
  static constexpr size_t kBytesMax = size_t{1} << 20;

  static std::vector<std::vector<T>>& Spare() {
    static thread_local std::vector<std::vector<T>> spare;
    return spare;
  }

  std::vector<T> vector_;
};

}  // namespace weir
