// Heads of HTTP answers: any lines give numbers that hold together, or are malformed.
#include <algorithm>
#include <cstdlib>
#include <limits>
#include <string_view>

#include "damacy/store/http/answer.h"
#include "damacy/store/http/redirect.h"

using namespace damacy::http;

namespace {

void check(bool holds) {
  if (!holds) std::abort();
}

constexpr std::uint64_t kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());

void check_range(const ContentRange& range) {
  if (range.first) check(*range.first <= range.last && range.last <= kMost);
  if (range.total) check(*range.total <= kMost);
  if (range.first && range.total) check(range.last < *range.total);
  check(range.first || range.total);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  std::string_view input(reinterpret_cast<const char*>(data), size);
  if (const auto range = parse_content_range(input)) check_range(*range);
  if (const auto length = parse_length(input)) check(*length <= kMost);
  if (const auto wait = parse_retry_after(input)) check(*wait >= 0 && *wait <= 60);
  constexpr std::string_view kHere = "https://host/a/b?c";
  if (const auto target = resolve_location(kHere, input)) {
    check(target->starts_with("http://") || target->starts_with("https://"));
    check(target->find_first_of(" \r\n@#\\") == target->npos || target->find('@') > origin_of(*target).size());
    check(origin_of(*target).find('@') == std::string_view::npos && origin_of(*target).size() > 7);
  }
  static_cast<void>(reach_of_text(input));
  Head head;
  while (!input.empty()) {
    const std::size_t end = std::min(input.find('\n'), input.size() - 1) + 1;
    if (!head.add_line(input.substr(0, end))) break;
    input.remove_prefix(end);
  }
  check(head.status == 0 || (head.status >= 100 && head.status <= 999));
  if (head.range) check_range(*head.range);
  if (head.length) check(*head.length <= kMost);
  check(head.tag.empty() || (head.tag.size() >= 2 && head.tag.front() == '"' && head.tag.back() == '"'));
  check(head.tag.find_first_of("\r\n") == head.tag.npos && head.modified.find_first_of("\r\n") == head.modified.npos);
  check(head.encoding.size() <= 40 && head.request_id.size() <= 100);
  return 0;
}
