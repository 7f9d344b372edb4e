#pragma once

#include <cstdint>
#include <set>
#include <utility>

namespace weir {

// The orders to settle output that a coordinator waits for now. Each attempt is an order of its
// own, so that a worker which carries one out late learns that another has taken its place.
// Outlives its orders. Thread: confined to the executor.
class SettleOrders {
 public:
  // Open until it is destroyed.
  class Order {
   public:
    Order(Order&& other) noexcept
        : owner_(std::exchange(other.owner_, nullptr)), number_(other.number_) {}
    Order& operator=(Order&&) = delete;
    ~Order() {
      if (owner_ != nullptr) owner_->open_.erase(number_);
    }
    uint64_t number() const { return number_; }

   private:
    friend class SettleOrders;
    Order(SettleOrders* owner, uint64_t number) : owner_(owner), number_(number) {}
    SettleOrders* owner_;
    uint64_t number_;
  };

  Order Give() {
    open_.insert(++last_);
    return Order(this, last_);
  }
  bool IsOpen(uint64_t number) const { return open_.contains(number); }

 private:
  uint64_t last_ = 0;
  std::set<uint64_t> open_;
};

}  // namespace weir
