// Makes an Error from a decoder's result: its message and its class.
#pragma once

#include "damacy/codec/status.h"
#include "damacy/core/error.h"

namespace damacy {

[[nodiscard]] Error decode_error(const DecodeResult& result) noexcept;

}  // namespace damacy
