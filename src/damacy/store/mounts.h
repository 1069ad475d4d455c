// Which store a uri names: a directory of the file system, or a store that is mounted under a prefix of the uri. Knows
// the table of mounts, one a process; forked children inherit it. Does not know what is at a uri, nor keep what a uri
// once named. Part of the public interface by damacy/remote.h.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "damacy/store/store.h"
#include "damacy/store/store_options.h"
#include "damacy/store/store_use.h"

namespace damacy {

// Mounts `store` for all uris below `prefix`, and returns the prefix with a '/' at its end. The longest prefix that
// matches a uri is used. A store that was mounted under the same prefix is replaced; what was opened before keeps the
// old one. The store's calls come from several threads and may block; the library adds the deadline.
// Throws Error(inval, "uri") unless `prefix` is SCHEME://NAME/… with another scheme than file, without user info, query
// or fragment.
std::string mount(std::string_view prefix, std::shared_ptr<Store> store);

// The same with options for the http, https or s3 uris below `prefix`, which keep their meaning. Also throws
// Error(inval, "options").
std::string mount(std::string_view prefix, const StoreOptions& options);

// The same under a prefix that stands for `root`, an http, https or s3 uri: another name for what these options reach.
std::string mount(std::string_view prefix, std::string_view root, const StoreOptions& options);

// The store at an http, https or s3 uri that these options reach, whatever is mounted. Throws as mount().
[[nodiscard]] std::shared_ptr<Store> store_with_options(std::string_view uri, const StoreOptions& options);

// Throws Error(inval, "uri") if nothing is mounted under `prefix`. What was opened before keeps its store.
void unmount(std::string_view prefix);

// The path of the file system that a uri names; empty if it names a mounted store. Throws Error(inval, "uri") as
// path_of_uri(), except for the scheme.
[[nodiscard]] std::optional<std::string> file_path_of_uri(std::string_view uri);

// What a uri names, also after other stores are mounted.
struct MountedUri {
  std::string uri;
  std::shared_ptr<Store> mount{};  // under the longest prefix; null: none, or the uri names a file
  std::string path{};              // of the uri, below the prefix
};
// As it is mounted now. Throws Error(inval, "uri") if the uri names no file and no store is mounted there.
[[nodiscard]] MountedUri find_mount(std::string_view uri);

// The store at a uri that names no file: below the path of the uri in the store that is mounted, else behind HTTP(S) or
// in S3. Its name is the uri.
[[nodiscard]] std::shared_ptr<Store> mounted_store(const MountedUri& place, const StoreUse& use = {});
[[nodiscard]] std::shared_ptr<Store> mounted_store_of_uri(std::string_view uri, const StoreUse& use = {});

// The options that are mounted for an http, https or s3 uri; empty: none, or a store.
[[nodiscard]] std::optional<StoreOptions> mounted_options_of_uri(std::string_view uri);

// The store at any uri. `open_directory` makes the store of a directory.
using OpenDirectory = std::function<std::shared_ptr<Store>(const std::string& path)>;
[[nodiscard]] std::shared_ptr<Store> store_of_uri(std::string_view uri, const OpenDirectory& open_directory);
[[nodiscard]] std::shared_ptr<Store> store_of(const MountedUri& place);   // of a file: one open file at most
[[nodiscard]] std::shared_ptr<Store> store_of_uri(std::string_view uri);  // one open file at most

// The prefix and the store of each mount, sorted by prefix.
[[nodiscard]] std::vector<std::pair<std::string, std::shared_ptr<Store>>> mounts();

}  // namespace damacy
