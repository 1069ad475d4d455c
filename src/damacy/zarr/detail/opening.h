// Finds the array that an uri names. Knows which documents to look for, in which order, and the errors for groups.
// Reads documents; does not know what an array document means.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "damacy/core/error.h"
#include "damacy/store/store.h"
#include "damacy/zarr/array.h"
#include "damacy/zarr/metadata.h"

namespace damacy {

// A document as it was when it was read.
struct ReadDocument {
  std::string key;
  std::optional<Stamp> stamp;  // empty: it was not there
};

// An array's document, not yet parsed.
struct FoundArray {
  std::string path;  // below the store, "" for the root
  std::string key;
  Stamp stamp;
  std::string text;
  int zarr_format = 3;
  std::vector<std::string> levels;                     // of the NGFF image it was found through
  std::vector<std::optional<std::string>> axes;        // names of that image's axes
  std::vector<std::optional<std::string>> axis_types;  // and their types
  std::vector<ReadDocument> through;                   // group documents that led here
  std::vector<std::string> looked_for;                 // keys of all documents that were there or might have been
};

// Held while a document larger than any array's is in memory, so that there is one such document at a time. One thread
// may hold several, of the same group.
using LargeDocuments = std::recursive_mutex;

// After the error of a document that cannot be parsed: a cache of the store keeps it no longer. False: none had it.
bool forget_document(Store& store, const Error& error) noexcept;

// Calls `read`, which reads and parses documents: twice, if the first time a cache had a damaged one.
template <class Read>
auto read_documents(Store& store, Read read) {
  for (bool is_first = true;; is_first = false) {
    try {
      return read();
    } catch (const Error& e) {
      if (!forget_document(store, e) || !is_first) throw;
    }
  }
}

// Errors carry key and pointer; open_array and its like add uri and store.
[[nodiscard]] FoundArray find_array(const std::string& uri, Store& store, LargeDocuments& large);

// The node at the root of the store, also a group, which find_array() refuses.
struct FoundNode {
  bool is_array = false;
  int zarr_format = 3;
  std::string attributes;               // of a group: zarr.json, whose member they are, or .zattrs; may be empty
  std::vector<std::string> looked_for;  // as of FoundArray
};
[[nodiscard]] FoundNode find_node(Store& store, LargeDocuments& large);

[[nodiscard]] ArrayMetadata parse_found(const FoundArray& found);

[[nodiscard]] std::shared_ptr<const Array> make_array(const std::string& uri, std::shared_ptr<Store> store,
                                                      const FoundArray& found);

// Arrays below the root: from a walk, at most Limits::group_list_depth deep and Limits::group_list_entries wide.
[[nodiscard]] std::vector<std::string> walk_arrays(Store& store);

// Names of the arrays and groups directly below the root, in natural order, by their documents.
[[nodiscard]] std::vector<std::string> node_names(Store& store);
// The same of a group: from its consolidated metadata if they name any, else by documents.
[[nodiscard]] std::vector<std::string> member_names(const std::string& uri, Store& store, LargeDocuments& large);
// Why the consolidated metadata in a document are malformed: .zmetadata, or zarr.json. Empty: they are not.
[[nodiscard]] std::string consolidated_problem(int zarr_format, std::string_view document);
// What find_array() throws for a group, also for one that is an image.
[[nodiscard]] Error group_error(const std::string& uri, Store& store, LargeDocuments& large);
// Of all objects below a path, except metadata documents.
[[nodiscard]] std::uint64_t bytes_below(Store& store, const std::string& path);

// "A/2" before "A/10": runs of digits count as numbers.
[[nodiscard]] bool natural_less(const std::string& a, const std::string& b);

// "A/1, A/2, A/10 (+3 more)", in natural order.
[[nodiscard]] std::string shown_arrays(std::vector<std::string> paths);

// `path` and `name`, where an empty path is the root.
[[nodiscard]] std::string below(std::string_view path, std::string_view name);

}  // namespace damacy
