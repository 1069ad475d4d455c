// What a document of references (kerchunk, JSON of version 1) says: for each key, bytes that the document itself holds,
// or where they are in another object. Knows the format and its limits; opens nothing, and does not know which urls may
// be named.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "damacy/store/store.h"

namespace damacy {

class References {
 public:
  // Throws Error(decode) with the reasons json, metadata and duplicate-key, Error(inval, "limit"), and
  // Error::unsupported(…, "references") for what the format has besides; all with a pointer.
  static References parse(std::string_view document);

  struct Range {
    std::uint64_t offset = 0, bytes = 0;
  };
  struct Reference {
    std::optional<std::string_view> data{};  // in the document; else in an object:
    std::size_t url = 0;                     // its index in urls()
    std::optional<Range> range{};            // empty: the whole object
  };
  [[nodiscard]] std::optional<Reference> find(std::string_view key) const;
  // Whether keys are below `path`.
  [[nodiscard]] bool has_below(std::string_view path) const;
  [[nodiscard]] std::vector<Entry> list(std::string_view path) const;
  [[nodiscard]] std::span<const std::string> urls() const noexcept { return urls_; }
  [[nodiscard]] std::size_t size() const noexcept { return rows_.size(); }

  // Replaces each url by what `resolve` makes of it.
  template <class Resolve>
  void resolve_urls(Resolve resolve) {
    for (std::string& url : urls_) url = resolve(url);
  }

  // To make one without a document: any number of these, with distinct keys, then finish().
  void add_data(std::string_view key, std::string_view data);
  void add(std::string_view key, std::string_view url, const std::optional<Range>& range);
  // Sorts the keys. Returns one that occurs twice; empty: none does.
  [[nodiscard]] std::optional<std::string_view> finish();

 private:
  static constexpr std::uint32_t kNoUrl = 0xffffffff;
  static constexpr std::uint64_t kWhole = ~std::uint64_t{0};
  struct Row {
    std::uint32_t key_at, key_bytes;
    std::uint32_t url = kNoUrl;  // kNoUrl: the offset is one in characters_
    std::uint64_t offset = 0, bytes = kWhole;
  };

  [[nodiscard]] std::string_view key_of(const Row& row) const noexcept {
    return std::string_view(characters_).substr(row.key_at, row.key_bytes);
  }
  [[nodiscard]] std::vector<Row>::const_iterator first_from(std::string_view key) const;
  Row& add_row(std::string_view key);

  std::vector<Row> rows_;   // sorted by key
  std::string characters_;  // of keys and data
  std::vector<std::string> urls_;
  std::unordered_map<std::string, std::uint32_t> url_ids_;  // until finish()
};

}  // namespace damacy
