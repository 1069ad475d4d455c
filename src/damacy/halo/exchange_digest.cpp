#include "damacy/halo/exchange_digest.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "damacy/halo/spec.h"

namespace damacy::halo {
namespace {

// FNV-1a over words, once for each part of a digest.
class Hash {
 public:
  void add(std::int64_t value) {
    for (std::size_t part = 0; part < digest_.size(); ++part)
      for (int byte = 0; byte < 8; ++byte) {
        digest_[part] ^= (static_cast<std::uint64_t>(value) >> (8 * byte)) & 0xff;
        digest_[part] = (digest_[part] + part) * 0x100000001b3;
        digest_[part] ^= digest_[part] >> (29 + part);
      }
  }
  void add(std::string_view text) {
    add(static_cast<std::int64_t>(text.size()));
    for (const char c : text) add(static_cast<std::int64_t>(c));
  }
  Digest digest() const { return digest_; }

 private:
  Digest digest_{0xcbf29ce484222325, 0x84222325cbf29ce4, 0x9e3779b97f4a7c15, 0xbf58476d1ce4e5b9};
};

// One slot of a message: `own` is the field whose place it takes, `box` what is read.
void add_slot(Hash& hash, std::span<const QuantityHaloSpec> fields, std::uint32_t own, const FieldBox& box, bool odd,
              Wire wire) {
  const QuantityHaloSpec& field = fields[own];
  Dims extents = box.box.extents();
  const auto [i, j] = horizontal_axes(fields[box.field].dims);
  if (odd && i >= 0 && j >= 0) std::swap(extents[static_cast<std::size_t>(i)], extents[static_cast<std::size_t>(j)]);
  hash.add(own);
  hash.add(name_of(field.dtype));
  for (const auto& dim : field.dims) hash.add(kind_of(dim));
  if (wire == Wire::native) {
    std::vector<std::size_t> ranks(extents.size());
    for (std::size_t axis = 0; axis < ranks.size(); ++axis) ranks[axis] = axis;
    std::stable_sort(ranks.begin(), ranks.end(), [&](std::size_t a, std::size_t b) {
      return std::abs(field.strides[a]) > std::abs(field.strides[b]);
    });
    for (const auto axis : ranks) hash.add(static_cast<std::int64_t>(axis));
  }
  for (const auto extent : extents) hash.add(extent);
}

void add_line(Hash& hash, const FieldBox& box) {
  Dims extents = box.box.extents();
  std::sort(extents.begin(), extents.end());
  for (const auto extent : extents) hash.add(extent);
}

}  // namespace

Digest digest_of(std::span<const QuantityHaloSpec> fields, std::span<const ExchangePhase> phases, std::int64_t peer,
                 bool sends, Wire wire, bool lines) {
  Hash hash;
  hash.add(static_cast<std::int64_t>(wire));
  for (const ExchangePhase& phase : phases) {
    const auto& messages = sends ? phase.sends : phase.receives;
    const auto message = messages.find(peer);
    const std::span<const Entry> entries = message == messages.end() ? std::span<const Entry>() : message->second;
    hash.add(static_cast<std::int64_t>(entries.size()));
    for (const Entry& entry : entries) {
      const bool odd = sends && modulo_4(entry.rotation) % 2 == 1;
      if (lines) {
        add_line(hash, entry.x);
        continue;
      }
      hash.add(entry.y ? 2 : 1);
      add_slot(hash, fields, entry.x.field, entry.y && odd ? *entry.y : entry.x, odd, wire);
      if (entry.y) add_slot(hash, fields, entry.y->field, odd ? entry.x : *entry.y, odd, wire);
    }
  }
  return hash.digest();
}

}  // namespace damacy::halo
