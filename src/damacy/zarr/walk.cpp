// The arrays below a group, for people who named the group.
#include <algorithm>
#include <cstddef>
#include <deque>

#include "damacy/core/error.h"
#include "damacy/core/formatted.h"
#include "damacy/core/limits.h"
#include "damacy/zarr/detail/opening.h"

namespace damacy {
namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

std::string_view digits_at(std::string_view text, std::size_t at) {
  std::size_t end = at;
  while (end < text.size() && is_digit(text[end])) ++end;
  return text.substr(at, end - at);
}

std::string_view without_zeros(std::string_view digits) {
  return digits.substr(std::min(digits.find_first_not_of('0'), digits.size()));
}

bool is_v3_array(Store& store, const std::string& path) {
  const auto object = store.open(below(path, "zarr.json"));
  if (!object || object->stamp().size > Limits::array_document_bytes) return false;
  std::string document(object->stamp().size, '\0');
  object->read_exact(0, std::as_writable_bytes(std::span(document)));
  return parse_v3_group(document).is_array;
}

// Arrays that cannot be read are not listed.
bool is_array(Store& store, const std::string& path) {
  try {
    return store.stamp(below(path, ".zarray")) || is_v3_array(store, path);
  } catch (const Error&) {
    return false;
  }
}

bool is_document(std::string_view name) {
  return name == "zarr.json" || name == ".zarray" || name == ".zattrs" || name == ".zgroup" || name == ".zmetadata";
}

bool is_node(Store& store, const std::string& path) {
  for (const std::string_view name : {"zarr.json", ".zarray", ".zgroup"})
    if (store.stamp(below(path, name))) return true;
  return false;
}

// Throws Error(io, "listing") if the store has no listings at all: then nothing that is there can be named.
void need_listings(Store& store) {
  if (!store.is_remote()) return;
  if (const std::string why = store.why_absent(); !why.empty())
    throw Error(Status::io, formatted("members cannot be listed ({})", why), "listing");
}

struct Directory {
  std::string path;
  int depth;
};

}  // namespace

bool natural_less(const std::string& a, const std::string& b) {
  std::size_t i = 0, j = 0;
  while (i < a.size() && j < b.size()) {
    if (is_digit(a[i]) && is_digit(b[j])) {
      const auto run_a = digits_at(a, i), run_b = digits_at(b, j);
      const auto x = without_zeros(run_a), y = without_zeros(run_b);
      if (x.size() != y.size()) return x.size() < y.size();
      if (x != y) return x < y;
      i += run_a.size();
      j += run_b.size();
    } else {
      if (a[i] != b[j]) return a[i] < b[j];
      ++i;
      ++j;
    }
  }
  if (i == a.size() && j == b.size()) return a < b;  // "01" and "1" are not the same
  return i == a.size();
}

std::vector<std::string> node_names(Store& store) {
  need_listings(store);
  std::vector<std::string> names;
  for (const Entry& entry : store.list(""))
    if (entry.is_directory && is_node(store, entry.name)) names.push_back(entry.name);
  std::ranges::sort(names, natural_less);
  return names;
}

std::uint64_t bytes_below(Store& store, const std::string& path) {
  need_listings(store);
  std::uint64_t bytes = 0;
  std::deque<std::string> directories = {path};
  for (; !directories.empty(); directories.pop_front()) {
    const std::string here = directories.front();
    for (const Entry& entry : store.list(here)) {
      const std::string key = below(here, entry.name);
      if (entry.is_directory)
        directories.push_back(key);
      else if (const auto stamp = store.stamp(key); stamp && !is_document(entry.name))
        bytes += stamp->size;
    }
  }
  return bytes;
}

std::vector<std::string> walk_arrays(Store& store) {
  need_listings(store);
  std::vector<std::string> arrays;
  std::deque<Directory> directories = {{"", 0}};
  int entries = 0;
  for (; !directories.empty(); directories.pop_front()) {
    const Directory here = directories.front();
    for (const Entry& entry : store.list(here.path)) {
      if (!entry.is_directory) continue;
      if (entries++ == Limits::group_list_entries) return arrays;
      const std::string path = below(here.path, entry.name);
      if (is_array(store, path))
        arrays.push_back(path);
      else if (here.depth + 1 < Limits::group_list_depth)
        directories.push_back({path, here.depth + 1});
    }
  }
  return arrays;
}

std::string shown_arrays(std::vector<std::string> paths) {
  std::sort(paths.begin(), paths.end(), natural_less);
  const std::size_t shown = std::min<std::size_t>(paths.size(), Limits::group_list_shown);
  std::string line;
  for (std::size_t i = 0; i < shown; ++i) line += formatted("{}{}", i > 0 ? ", " : "", paths[i]);
  if (shown < paths.size()) line += formatted(" (+{} more)", paths.size() - shown);
  return line;
}

}  // namespace damacy
