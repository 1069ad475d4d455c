#include "damacy/zarr/node_info.h"

#include "damacy/cache/disk/environment_tier.h"
#include "damacy/core/error.h"
#include "damacy/store/mounts.h"
#include "damacy/store/storage_watch.h"
#include "damacy/zarr/array.h"
#include "damacy/zarr/detail/opening.h"

namespace damacy {
namespace {

NodeInfo::Kind kind_of(const FoundNode& node, const Ngff& ngff) {
  if (node.is_array) return NodeInfo::Kind::array;
  if (!ngff.images.empty()) return NodeInfo::Kind::image;
  return ngff.plate ? NodeInfo::Kind::plate : NodeInfo::Kind::group;
}

}  // namespace

std::shared_ptr<Store> store_of_node(const MountedUri& place) {
  return make_watched_store(with_environment_tier(store_of(place)));
}

NodeInfo node_info(const std::string& uri, std::shared_ptr<Store> store) {
  try {
    NodeInfo info;
    read_documents(*store, [&] {
      LargeDocuments large;
      FoundNode node = find_node(*store, large);
      info.zarr_format = node.zarr_format;
      info.looked_for = std::move(node.looked_for);
      const std::string key = node.zarr_format == 3 ? "zarr.json" : ".zattrs";
      try {
        if (!node.is_array) info.ngff = parse_ngff(node.attributes, node.zarr_format);
      } catch (Error& e) {
        throw e.at_key(key);
      }
      info.kind = kind_of(node, info.ngff);
      if (!node.is_array) info.attributes_document = std::move(node.attributes);
    });
    if (info.kind == NodeInfo::Kind::array || info.kind == NodeInfo::Kind::image) {
      info.array = array_info(uri, store);
      info.looked_for = info.array->looked_for;
    }
    return info;
  } catch (Error& e) {
    throw e.at_uri(uri).at_store(store->name());
  }
}

NodeInfo node_info(const std::string& uri) {
  return node_info(uri, store_of_node(find_mount(uri)));
}

std::vector<std::string> members_of_group(const std::string& uri) {
  const auto store = store_of_node(find_mount(uri));
  try {
    LargeDocuments large;
    return member_names(uri, *store, large);
  } catch (Error& e) {
    throw e.at_uri(uri).at_store(store->name());
  }
}

void refuse_group(const std::string& uri) {
  const auto store = store_of_node(find_mount(uri));
  try {
    LargeDocuments large;
    throw group_error(uri, *store, large);
  } catch (Error& e) {
    throw e.at_uri(uri).at_store(store->name());
  }
}

std::uint64_t stored_bytes(const Array& array) {
  try {
    return bytes_below(*array.store(), array.path());
  } catch (Error& e) {
    throw e.at_uri(array.uri()).at_store(array.store()->name());
  }
}

}  // namespace damacy
