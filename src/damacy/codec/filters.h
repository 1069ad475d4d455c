// The filters that decode element by element: running sums, scale and offset, casts. Pure: whole
// elements in, whole elements out, as NumPy would compute them. Knows no chain, no documents.
//
// A float that its integer type cannot hold becomes what NumPy's cast makes of it on x86-64: the lowest 32-bit integer
// cut to the type's bytes, the lowest 64-bit one for 64 bits; 32 unsigned bits wrap.
#pragma once

#include <cstdint>

#include "damacy/codec/bytes.h"
#include "damacy/codec/status.h"
#include "damacy/core/dtype.h"

namespace damacy {

// An element as it is stored.
struct StoredType {
  Dtype dtype = Dtype::u8;
  bool big_endian = false;
  friend bool operator==(const StoredType&, const StoredType&) = default;
};

// Whether filters compute with it: bool, integers, floats but bfloat16.
[[nodiscard]] constexpr bool is_filter_dtype(Dtype dtype) noexcept {
  return is_batch_dtype(dtype) && dtype != Dtype::bf16;
}

struct FilterTypes {
  StoredType decoded;
  StoredType encoded;
  friend bool operator==(const FilterTypes&, const FilterTypes&) = default;
};

struct Scaling {
  double scale = 1;
  double offset = 0;
  friend bool operator==(const Scaling&, const Scaling&) = default;
};

// Each decodes in.size() / size_of(encoded) elements; both sizes are whole elements and agree, or DecodeStatus::size.
[[nodiscard]] DecodeResult decode_cast(const FilterTypes& types, detail::ByteSpan in, detail::MutableByteSpan out);
// Running sum in the decoded type; integers wrap.
[[nodiscard]] DecodeResult decode_delta(const FilterTypes& types, detail::ByteSpan in, detail::MutableByteSpan out);
// x / scale + offset in double (encoded f32: float, f16: half).
[[nodiscard]] DecodeResult decode_scaled(const FilterTypes& types, const Scaling& scaling, detail::ByteSpan in,
                                         detail::MutableByteSpan out);

// Bytes of the form that numcodecs' packbits gives `decoded` booleans: how many bits pad the last byte, then eight
// booleans a byte, the first in the highest bit.
[[nodiscard]] constexpr std::uint64_t packbits_encoded_size(std::uint64_t decoded) noexcept {
  return 1 + (decoded + 7) / 8;
}
// Booleans in it, as far as its first byte makes sense.
[[nodiscard]] std::uint64_t packbits_decoded_size(detail::ByteSpan encoded) noexcept;
[[nodiscard]] DecodeResult decode_packbits(detail::ByteSpan in, detail::MutableByteSpan out);

// As numcodecs' shuffle: in[k * m + i] goes to out[i * width + k]; the size is a multiple of `width`. A width of 0 or 1
// leaves the bytes unchanged.
[[nodiscard]] DecodeResult decode_shuffle(std::uint64_t width, detail::ByteSpan in, detail::MutableByteSpan out);

}  // namespace damacy
