// Asks remote stores for the documents of nodes ahead of the threads that open these, one after the other. Which
// documents a node needs is guessed from those that were opened before. Knows keys and counts; opens nothing, and does
// not know what a document means.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "damacy/core/mutex.h"
#include "damacy/store/store.h"

namespace damacy {

// Keys of the documents by which nodes were opened of late. Thread-safe.
class UsualDocuments {
 public:
  void note(std::span<const std::string> keys);  // of one node
  struct Known {
    std::vector<std::string> keys{"zarr.json"};
    std::uint64_t version = 0;  // another one where the keys are others
  };
  Known known() const;

 private:
  struct Used {
    std::string key;
    std::uint64_t last = 0;
  };
  mutable Mutex mutex_;
  std::vector<Used> used_ DAMACY_GUARDED_BY(mutex_);
  Known known_ DAMACY_GUARDED_BY(mutex_);
  std::uint64_t notes_ DAMACY_GUARDED_BY(mutex_) = 0;
};

// Of nodes 0 to `count`, which several threads open in about this order. Thread-safe.
class DocumentsAhead {
 public:
  // The store of a node, at whose root it is; null: nothing is asked for. It may throw.
  using StoreOf = std::function<std::shared_ptr<Store>(std::size_t number)>;
  struct Wish {
    std::size_t bytes = 0;    // of answers that are ahead, at most
    bool attributes = false;  // in version 2 they are documents, too
  };
  // Memory of the answer to each of many nodes; of few 64 KiB. Larger documents take another request.
  static constexpr std::size_t kAnswerBytes = 16 << 10;

  DocumentsAhead(std::size_t count, StoreOf store_of, std::shared_ptr<const UsualDocuments> usual, const Wish& wish);
  ~DocumentsAhead();
  DocumentsAhead(const DocumentsAhead&) = delete;
  DocumentsAhead& operator=(const DocumentsAhead&) = delete;

  // Before a node is opened: asks for the documents of those that follow. Throws nothing but Abandoned.
  void begin(std::size_t number);
  // It was opened, or failed: answers that it did not take are dropped.
  void end(std::size_t number) noexcept;
  // Nothing more is asked for, and what was not sent is not sent.
  void cancel() noexcept;

 private:
  struct Node {
    std::shared_ptr<Store> store;   // null: not announced, or ended
    std::vector<std::string> keys;  // asked for
    bool is_begun = false, is_ended = false;
  };
  // What is to be asked for.
  struct Order {
    std::size_t number;
    std::shared_ptr<Store> store;  // null: not known yet
    std::vector<std::string> keys;
  };
  using Known = UsualDocuments::Known;

  std::optional<Order> next_order();
  std::optional<Order> next_order(const Known& usual) DAMACY_REQUIRES(mutex_);
  std::vector<std::string> missing_keys(const Node& node, const Known& usual) const;
  void announce(Order order);
  bool attach(const Order& order);  // false: it is not wanted any more
  bool is_wanted(const Order& order);
  void drop(bool begun_too) noexcept;

  const StoreOf store_of_;
  const std::shared_ptr<const UsualDocuments> usual_;
  const Wish wish_;
  const std::size_t answer_bytes_;
  Mutex mutex_;
  std::vector<Node> nodes_ DAMACY_GUARDED_BY(mutex_);
  std::size_t first_ DAMACY_GUARDED_BY(mutex_) = 0;      // nodes before have ended
  std::size_t next_ DAMACY_GUARDED_BY(mutex_) = 0;       // nodes from here on are not announced
  std::size_t documents_ DAMACY_GUARDED_BY(mutex_) = 0;  // asked for, of nodes that have not ended
  std::uint64_t version_ DAMACY_GUARDED_BY(mutex_) = 0;  // of what is usual
  std::size_t renewed_ DAMACY_GUARDED_BY(mutex_) = 0;    // nodes before have all that is usual
  bool is_cancelled_ DAMACY_GUARDED_BY(mutex_) = false;
};

}  // namespace damacy
