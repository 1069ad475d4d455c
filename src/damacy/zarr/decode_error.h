// What a decoder said, as an Error: the words and the class that formats.md section 11 has for it.
#pragma once

#include "damacy/codec/status.h"
#include "damacy/core/error.h"

namespace damacy {

[[nodiscard]] Error decode_error(const DecodeResult& result);

}  // namespace damacy
