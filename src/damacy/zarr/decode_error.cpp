#include "damacy/zarr/decode_error.h"

#include "damacy/core/formatted.h"

namespace damacy {

Error decode_error(const DecodeResult& result) noexcept try {
  std::string message = result.detail;
  const bool has_numbers = result.seen != 0 || result.expected != 0;
  if (!result.has_expected)
    message += formatted(": {}", result.seen);
  else if (has_numbers && result.status == DecodeStatus::limit)
    message += formatted(": {}, the limit is {}", result.seen, result.expected);
  else if (has_numbers)
    message += formatted(": got {}, expected {}", result.seen, result.expected);
  std::string reason(reason_of(result.status));
  if (result.status == DecodeStatus::unsupported) return Error::unsupported(std::move(message), std::move(reason));
  return Error(result.status == DecodeStatus::limit ? Status::inval : Status::decode, std::move(message),
               std::move(reason));
} catch (const std::bad_alloc&) {
  return Error::out_of_memory();
}

}  // namespace damacy
