// Information about the node that a uri names: an array, an image, a plate of images or another group. Reads metadata
// documents only.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "damacy/zarr/array_info.h"
#include "damacy/zarr/ngff.h"

namespace damacy {

class Array;
class Store;
struct MountedUri;

struct NodeInfo {
  enum class Kind : std::uint8_t { array, image, plate, group };
  Kind kind = Kind::group;
  int zarr_format = 3;
  std::optional<ArrayInfo> array;  // also of an image: its level 0
  // Of a group, checked JSON: zarr.json, whose member `attributes` they are, or .zattrs; may be empty.
  std::string attributes_document;
  Ngff ngff;
  std::vector<std::string> looked_for;  // keys of all documents that were there or might have been
};

// The store of a node, with deadlines.
[[nodiscard]] std::shared_ptr<Store> store_of_node(const MountedUri& place);

// Throws what array_info() throws, except for groups, and with the key of a group's document.
[[nodiscard]] NodeInfo node_info(const std::string& uri, std::shared_ptr<Store> store);
[[nodiscard]] NodeInfo node_info(const std::string& uri);

// The arrays and groups directly below a group, in natural order ("2" before "10"). Consolidated metadata are believed
// where they name any: nodes that are not in them are left out, and nodes in them may be gone.
[[nodiscard]] std::vector<std::string> members_of_group(const std::string& uri);

// Throws what array_info() throws for a group, which names the arrays inside, also for an image.
[[noreturn]] void refuse_group(const std::string& uri);

// The sum of the sizes of an array's stored objects. Lists directories and asks for the size of each object.
[[nodiscard]] std::uint64_t stored_bytes(const Array& array);

}  // namespace damacy
