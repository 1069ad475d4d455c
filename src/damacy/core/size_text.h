// A number of bytes as people read it: "7 B", "256.2 KiB", "5.0 GiB". For logs and explanations; errors and settings to
// paste have exact numbers. The same text as size_text of python/damacy/_core/sizes.py.
#pragma once

#include <concepts>
#include <string>

namespace damacy {

std::string size_text(double bytes);
template <std::integral Bytes>
std::string size_text(Bytes bytes) {
  return size_text(static_cast<double>(bytes));
}

}  // namespace damacy
