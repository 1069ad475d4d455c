#include "damacy/store/references.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "damacy/core/formatted.h"

namespace damacy {

References::Row& References::add_row(std::string_view key) {
  const Row row{.key_at = static_cast<std::uint32_t>(characters_.size()),
                .key_bytes = static_cast<std::uint32_t>(key.size())};
  characters_ += key;
  return rows_.emplace_back(row);
}

void References::add_data(std::string_view key, std::string_view data) {
  Row& row = add_row(key);
  row.offset = characters_.size();
  row.bytes = data.size();
  characters_ += data;
}

void References::add(std::string_view key, std::string_view url, const std::optional<Range>& range) {
  const auto [at, is_new] = url_ids_.try_emplace(std::string(url), static_cast<std::uint32_t>(urls_.size()));
  if (is_new) urls_.emplace_back(url);
  Row& row = add_row(key);
  row.url = at->second;
  if (range) std::tie(row.offset, row.bytes) = std::pair(range->offset, range->bytes);
}

std::optional<std::string_view> References::finish() {
  url_ids_.clear();
  const auto key = [this](const Row& row) { return key_of(row); };
  std::ranges::sort(rows_, {}, key);
  const auto twin = std::ranges::adjacent_find(rows_, {}, key);
  return twin == rows_.end() ? std::nullopt : std::optional(key_of(*twin));
}

std::vector<References::Row>::const_iterator References::first_from(std::string_view key) const {
  return std::ranges::lower_bound(rows_, key, {}, [this](const Row& row) { return key_of(row); });
}

std::optional<References::Reference> References::find(std::string_view key) const {
  const auto row = first_from(key);
  if (row == rows_.end() || key_of(*row) != key) return std::nullopt;
  if (row->url == kNoUrl) return Reference{.data = std::string_view(characters_).substr(row->offset, row->bytes)};
  Reference found{.url = row->url};
  if (row->bytes != kWhole) found.range = Range{row->offset, row->bytes};
  return found;
}

bool References::has_below(std::string_view path) const {
  const std::string start = formatted("{}/", path);
  const auto row = first_from(start);
  return row != rows_.end() && key_of(*row).starts_with(start);
}

std::vector<Entry> References::list(std::string_view path) const {
  const std::string start = path.empty() ? std::string() : formatted("{}/", path);
  std::map<std::string, bool> found;
  for (auto row = first_from(start); row != rows_.end() && key_of(*row).starts_with(start);) {
    const std::string_view rest = key_of(*row).substr(start.size());
    const std::size_t slash = rest.find('/');
    const std::string name(rest.substr(0, slash));
    const bool is_directory = slash != rest.npos;
    found[name] |= is_directory;
    // What is below a directory has its name and a '/', which '0' follows.
    row = is_directory ? first_from(formatted("{}{}0", start, name)) : row + 1;
  }
  std::vector<Entry> entries;
  for (const auto& [name, is_directory] : found) entries.push_back({name, is_directory});
  return entries;
}

}  // namespace damacy
