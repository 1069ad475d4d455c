// Values and axes of an ArraySpec: their bits and their texts. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "damacy/batch/config.h"
#include "damacy/core/dtype.h"

namespace damacy {

// The bits of a value in an element type of batches, rounded as conversions are.
[[nodiscard]] std::uint64_t bits_of(const Number& value, Dtype dtype);
[[nodiscard]] double as_double(const Number& value) noexcept;
// Whether an integer type has exactly this value; of a float type always true.
[[nodiscard]] bool fits(const Number& value, Dtype dtype) noexcept;
[[nodiscard]] std::string text_of(const Number& value);
[[nodiscard]] std::string_view short_name_of(Dtype dtype) noexcept;  // "f32", "u8"; of types of batches
[[nodiscard]] std::string text_of(const AxisKey& key);               // 'y' or -1

}  // namespace damacy
