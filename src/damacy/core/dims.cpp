#include "damacy/core/dims.h"

#include "damacy/core/formatted.h"

namespace damacy {

std::string tuple_text(std::span<const std::int64_t> values) {
  std::string out = "(";
  for (std::size_t i = 0; i < values.size(); ++i) out += formatted("{}{}", i ? ", " : "", values[i]);
  if (values.size() == 1) out += ',';
  return out + ")";
}

}  // namespace damacy
