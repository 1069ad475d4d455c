#include <algorithm>

#include "damacy/core/error.h"
#include "damacy/core/formatted.h"
#include "damacy/core/limits.h"
#include "damacy/core/log.h"
#include "damacy/store/storage_watch.h"
#include "damacy/zarr/detail/opening.h"

namespace damacy {
namespace {

struct Text {
  std::string key;
  Stamp stamp;
  std::string characters;
  std::unique_lock<LargeDocuments> turn;  // of a large document

  void forget() {
    characters = {};
    turn = {};
  }
};

// A store, with the lock for its large documents.
struct Source {
  Store& store;
  LargeDocuments& large;
  std::vector<std::string>* looked_for = nullptr;  // keys of documents; null: they are not noted
};

// Waits for other holders, of which one may be stuck in a storage call.
std::unique_lock<LargeDocuments> turn_of(LargeDocuments& large) {
  return StorageWatch::wait_behind([&] { return std::unique_lock(large); });
}

// Empty: absent. The size is compared with `limit` before anything is read.
std::optional<Text> read_document(const Source& source, std::string key, std::uint64_t limit) {
  if (source.looked_for != nullptr) source.looked_for->push_back(key);
  const auto object = source.store.open(key);
  if (!object) return std::nullopt;
  const auto size = object->stamp().size;
  if (size > limit)
    throw Error(Status::inval, formatted("document of {} bytes, limit {}", size, limit), "limit").at_key(key);
  Text document{std::move(key), object->stamp(), {}, {}};
  if (size > Limits::array_document_bytes) document.turn = turn_of(source.large);
  document.characters.resize(size);
  object->read_piece(0, std::as_writable_bytes(std::span(document.characters)));
  return document;
}

// The node at a path: an array's or a group's document.
struct Node {
  Text document;
  int zarr_format;
  bool is_array;
  GroupMetadata group;  // v3 groups only: known from the same document
};

void warn_of_both(Store& store, const std::string& uri, std::string_view path) {
  if (store.is_remote()) return;
  for (const std::string_view name : {".zarray", ".zgroup"})
    if (store.stamp(below(path, name))) {
      log(LogLevel::warn, formatted("{}: holds zarr.json and {}; zarr.json is used", uri, below(path, name)));
      return;
    }
}

template <class Parse>
auto with_key(const std::string& key, Parse parse) {
  try {
    return parse();
  } catch (Error& e) {
    throw e.at_key(key);
  }
}

std::optional<Node> read_node(const Source& source, const std::string& uri, std::string_view path) {
  if (auto v3 = read_document(source, below(path, "zarr.json"), Limits::group_document_bytes)) {
    warn_of_both(source.store, uri, path);
    auto group = with_key(v3->key, [&] { return parse_v3_group(v3->characters); });
    const bool is_array = group.is_array;
    if (!is_array) v3->forget();
    return Node{std::move(*v3), 3, is_array, std::move(group)};
  }
  if (auto v2 = read_document(source, below(path, ".zarray"), Limits::array_document_bytes))
    return Node{std::move(*v2), 2, true, {}};
  if (auto v2 = read_document(source, below(path, ".zgroup"), Limits::group_document_bytes))
    return Node{std::move(*v2), 2, false, {}};
  return std::nullopt;
}

Error no_metadata(std::string_view path, std::string_view hint) {
  const auto name = [&](std::string_view document) { return below(path, document); };
  return Error(
      Status::notfound,
      formatted("no zarr metadata: tried {}, {}, {}{}", name("zarr.json"), name(".zarray"), name(".zgroup"), hint),
      "no-metadata");
}

// Errors for a path that does not exist, a file, or a folder of arrays.
Error no_metadata_at_root(Store& store) {
  if (const std::string why = store.why_absent(); !why.empty()) return no_metadata("", formatted("; {}", why));
  std::string arrays;
  try {
    arrays = shown_arrays(walk_arrays(store));
  } catch (const Error& e) {  // a folder that cannot be listed
    if (e.where().reason == "denied")
      return no_metadata("", formatted("; arrays inside are not named: {}", e.message()));
  }
  return no_metadata("", arrays.empty() ? arrays : formatted("; arrays inside: {}", arrays));
}

FoundArray found(Node node, std::string path) {
  Text& document = node.document;
  return {.path = std::move(path),
          .key = std::move(document.key),
          .stamp = document.stamp,
          .text = std::move(document.characters),
          .zarr_format = node.zarr_format,
          .levels = {},
          .axes = {},
          .axis_types = {},
          .through = {},
          .looked_for = {}};
}

ReadDocument read_mark(const std::optional<Text>& document, std::string key) {
  return {std::move(key), document ? std::optional(document->stamp) : std::nullopt};
}

// v2 attributes are in a separate document.
GroupMetadata read_v2_group(const Source& source, const Node& node, std::vector<ReadDocument>& through) {
  const auto attributes = read_document(source, ".zattrs", Limits::group_document_bytes);
  through.push_back(read_mark(attributes, ".zattrs"));
  with_key(node.document.key, [&] { return parse_v2_group(node.document.characters, "", ""); });
  if (!attributes) return {};
  return with_key(".zattrs", [&] { return parse_v2_group(node.document.characters, attributes->characters, ""); });
}

void warn_of_malformed_map(const std::string& uri, const GroupMetadata& group) {
  if (group.consolidated_malformed)
    log(LogLevel::warn, formatted("{}: consolidated metadata are malformed and ignored", uri));
}

// A v2 group's map is a separate document.
void read_v2_map(const Source& source, const std::string& uri, const Node& node, GroupMetadata& group) {
  if (const auto map = read_document(source, ".zmetadata", Limits::group_document_bytes))
    warn_of_malformed_map(uri, group = parse_v2_group(node.document.characters, "", map->characters));
}

// From consolidated metadata where they are, else from a walk.
std::vector<std::string> arrays_inside(const Source& source, const std::string& uri, const Node& node,
                                       GroupMetadata group) {
  if (node.zarr_format == 2) read_v2_map(source, uri, node, group);
  return group.consolidated_arrays.empty() ? walk_arrays(source.store) : std::move(group.consolidated_arrays);
}

Error is_group(const Source& source, const std::string& uri, const Node& node, const GroupMetadata& group) {
  std::string arrays;
  try {
    arrays = shown_arrays(arrays_inside(source, uri, node, group));
  } catch (const Error& e) {
    arrays = formatted("unknown ({})", e.message());
  }
  std::string message = formatted("is a group, not an array; arrays inside: {}", arrays.empty() ? "none" : arrays);
  if (group.names_images_inside) message += "; it holds images, one of which must be named";
  return Error(Status::inval, std::move(message), "group").at_key(node.document.key);
}

// Level 0 of the image that the group at the root is.
FoundArray find_level(const Source& source, const std::string& uri, const GroupMetadata& group) {
  if (group.multiscales_count > 1)
    log(LogLevel::info, formatted("{}: the first of {} multiscales is used", uri, group.multiscales_count));
  const std::string& path = group.level_paths.front();
  auto node = read_node(source, uri, path);
  if (!node) throw no_metadata(path, "");
  if (!node->is_array)
    throw Error(Status::inval, formatted("level '{}' is a group, not an array", path), "group")
        .at_key(node->document.key);
  FoundArray level = found(std::move(*node), path);
  level.levels = group.level_paths;
  level.axes = group.axes;
  level.axis_types = group.axis_types;
  return level;
}

void tell_slow_codecs(const std::string& uri, const ArrayMetadata& metadata) {
  std::string names;
  const auto add = [&](const CodecChain& chain) {
    for (const CodecSpec& codec : chain.codecs())
      if (!codec.slow.empty()) names += formatted("{}{}", names.empty() ? "" : ", ", codec.slow);
  };
  add(metadata.codecs);
  for (const ShardLevel& shard : metadata.shards) add(shard.codecs);
  if (!names.empty()) log_some(LogLevel::info, "decoded on the cores, slowly", formatted("{}: {}", uri, names));
}

}  // namespace

bool forget_document(Store& store, const Error& error) noexcept {
  bool forgotten = false;
  if (!store.is_remote() || error.status() != Status::decode || error.where().key.empty()) return false;
  static_cast<void>(failure_of([&] {
    if (const auto object = store.open(error.where().key)) forgotten = object->forget_piece({0, object->stamp().size});
  }));
  return forgotten;
}

std::string below(std::string_view path, std::string_view name) {
  return path.empty() ? std::string(name) : formatted("{}/{}", path, name);
}

namespace {

FoundArray find_array(const std::string& uri, const Source& source) {
  auto node = read_node(source, uri, "");
  if (!node) throw no_metadata_at_root(source.store);
  if (node->is_array) return found(std::move(*node), "");
  std::vector<ReadDocument> through = {{node->document.key, node->document.stamp}};
  const GroupMetadata group = node->zarr_format == 3 ? std::move(node->group) : read_v2_group(source, *node, through);
  warn_of_malformed_map(uri, group);  // of a v3 group, whose map is in its document
  if (!group.has_multiscales) throw is_group(source, uri, *node, group);
  FoundArray level = find_level(source, uri, group);
  level.through = std::move(through);
  return level;
}

}  // namespace

FoundArray find_array(const std::string& uri, Store& store, LargeDocuments& large) {
  std::vector<std::string> looked_for;
  FoundArray found = find_array(uri, {store, large, &looked_for});
  found.looked_for = std::move(looked_for);
  return found;
}

std::vector<std::string> member_names(const std::string& uri, Store& store, LargeDocuments& large) {
  const Source source{store, large};
  auto node = read_node(source, uri, "");
  if (node && !node->is_array) {
    if (node->zarr_format == 2)
      read_v2_map(source, uri, *node, node->group);
    else
      warn_of_malformed_map(uri, node->group);
    if (auto& names = node->group.consolidated_members; !names.empty()) {
      std::ranges::sort(names, natural_less);
      names.erase(std::ranges::unique(names).begin(), names.end());
      return std::move(names);
    }
  }
  try {
    return node_names(store);
  } catch (Error& e) {
    if (!node || !node->group.consolidated_malformed) throw;
    const char* const key = node->zarr_format == 2 ? ".zmetadata" : "zarr.json";
    if (const auto map = read_document(source, key, Limits::group_document_bytes))
      e.with_note(formatted("{} is malformed: {}", key, consolidated_problem(node->zarr_format, map->characters)));
    throw;
  }
}

Error group_error(const std::string& uri, Store& store, LargeDocuments& large) {
  const Source source{store, large};
  auto node = read_node(source, uri, "");
  if (!node) return no_metadata_at_root(store);
  if (node->is_array) return Error(Status::io, "the group has become an array: open it again", "changed");
  std::vector<ReadDocument> through;
  const GroupMetadata group = node->zarr_format == 3 ? std::move(node->group) : read_v2_group(source, *node, through);
  return is_group(source, uri, *node, group);
}

ArrayMetadata parse_found(const FoundArray& found) {
  return with_key(found.key,
                  [&] { return found.zarr_format == 3 ? parse_v3_array(found.text) : parse_v2_array(found.text); });
}

FoundNode find_node(Store& store, LargeDocuments& large) {
  const Source source{store, large};
  if (auto v3 = read_document(source, "zarr.json", Limits::group_document_bytes)) {
    const bool is_array = with_key(v3->key, [&] { return parse_v3_group(v3->characters); }).is_array;
    return {is_array, 3, std::move(v3->characters), {v3->key}};
  }
  if (store.stamp(".zarray")) return {true, 2, {}, {"zarr.json", ".zarray"}};
  if (!store.stamp(".zgroup")) throw no_metadata_at_root(store);
  auto attributes = read_document(source, ".zattrs", Limits::group_document_bytes);
  return {false,
          2,
          attributes ? std::move(attributes->characters) : std::string(),
          {"zarr.json", ".zarray", ".zgroup", ".zattrs"}};
}

std::shared_ptr<const Array> make_array(const std::string& uri, std::shared_ptr<Store> store, const FoundArray& found) {
  ArrayMetadata metadata = parse_found(found);
  tell_slow_codecs(uri, metadata);
  return std::make_shared<const Array>(uri, std::move(store), found.path, found.key, found.stamp, std::move(metadata),
                                       found.levels, found.text);
}

std::shared_ptr<const Array> open_array(const std::string& uri, std::shared_ptr<Store> store) {
  try {
    LargeDocuments large;
    return read_documents(*store, [&] { return make_array(uri, store, find_array(uri, *store, large)); });
  } catch (Error& e) {
    throw e.at_uri(uri).at_store(store->name());
  }
}

}  // namespace damacy
