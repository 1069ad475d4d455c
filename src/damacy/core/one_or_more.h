// A sequence that mostly has one element, which then takes no memory of its own. The elements are consecutive.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <optional>
#include <utility>
#include <vector>

namespace damacy {

template <class T>
class OneOrMore {
 public:
  OneOrMore() = default;
  OneOrMore(std::initializer_list<T> all) {
    reserve(all.size());
    for (const T& one : all) push_back(one);
  }
  OneOrMore(std::vector<T> all) noexcept : more_(std::move(all)) {}
  OneOrMore(const OneOrMore&) = default;
  OneOrMore(OneOrMore&& other) noexcept : one_(std::move(other.one_)), more_(std::move(other.more_)) { other.clear(); }
  OneOrMore& operator=(OneOrMore other) noexcept {  // elements need no assignment
    one_.reset();
    if (other.one_) one_.emplace(std::move(*other.one_));
    more_.swap(other.more_);
    return *this;
  }
  ~OneOrMore() = default;

  // Both move the elements.
  void push_back(T element) {
    if (empty())
      one_.emplace(std::move(element));
    else
      vector().push_back(std::move(element));
  }
  T& emplace_back() { return empty() ? one_.emplace() : vector().emplace_back(); }
  void reserve(std::size_t count) {
    if (count > 1) more_.reserve(count);
  }
  void clear() noexcept {
    one_.reset();
    more_.clear();
  }

  bool empty() const noexcept { return size() == 0; }
  std::size_t size() const noexcept { return one_ ? 1 : more_.size(); }
  T* data() noexcept { return one_ ? &*one_ : more_.data(); }
  const T* data() const noexcept { return one_ ? &*one_ : more_.data(); }
  T* begin() noexcept { return data(); }
  T* end() noexcept { return data() + size(); }
  const T* begin() const noexcept { return data(); }
  const T* end() const noexcept { return data() + size(); }
  T& operator[](std::size_t index) noexcept { return data()[index]; }
  const T& operator[](std::size_t index) const noexcept { return data()[index]; }
  const T& front() const noexcept { return *data(); }
  const T& back() const noexcept { return data()[size() - 1]; }

 private:
  // Of all elements, from the second on.
  std::vector<T>& vector() {
    if (one_) {
      more_.reserve(2);  // before the first moves
      more_.push_back(std::move(*one_));
      one_.reset();
    }
    return more_;
  }

  std::optional<T> one_;
  std::vector<T> more_;
};

}  // namespace damacy
