// A host copier that takes no deep placements, as those of devices do not.
#pragma once

#include <algorithm>
#include <memory>

#include "damacy/copy/placement.h"

namespace damacy::testing {

class ShallowCopier final : public Copier {
 public:
  std::size_t image_bytes(const PlacementList& list) const override { return host_->image_bytes(list); }
  void write_image(const PlacementList& list, std::span<std::byte> image) const override {
    host_->write_image(list, image);
  }
  void enqueue(Stream& stream, const PlacementList& list, std::span<const std::byte> image) override {
    most_ = std::max(most_, list.size());
    deep_ |= !list.deep().empty();
    host_->enqueue(stream, list, image);
  }
  std::size_t most() const noexcept { return most_; }  // placements of one list
  bool deep() const noexcept { return deep_; }         // it was given what it does not take

 private:
  const std::unique_ptr<Copier> host_ = make_host_copier();
  std::size_t most_ = 0;
  bool deep_ = false;
};

}  // namespace damacy::testing
