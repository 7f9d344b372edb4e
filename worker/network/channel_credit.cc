#include "worker/network/channel_credit.h"

namespace weir {

SenderCredit::Given SenderCredit::Give(int64_t bytes) {
  // Whoever gives back has seen the elements, so their Take is visible here.
  const int64_t taken_bytes = window_bytes_ - left_bytes_.load(std::memory_order_acquire);
  if (bytes <= 0 || bytes > taken_bytes) return Given::kRefused;
  const int64_t before_bytes = left_bytes_.fetch_add(bytes, std::memory_order_acq_rel);
  return before_bytes <= 0 && before_bytes + bytes > 0 ? Given::kPositive : Given::kCounted;
}

int64_t ReceiverCredit::Pop(int64_t bytes) {
  owed_bytes_ += bytes;
  if (owed_bytes_ == 0 || owed_bytes_ < portion_bytes_) return 0;
  const int64_t give_bytes = owed_bytes_;
  owed_bytes_ = 0;
  return give_bytes;
}

}  // namespace weir
