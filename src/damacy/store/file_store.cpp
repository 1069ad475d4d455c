// A directory of the file system as a store. Maps keys to paths and lists directories; open_files handles the files.
#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <memory>

#include <dirent.h>
#include <sys/stat.h>

#include "damacy/core/formatted.h"
#include "damacy/store/detail/open_files.h"
#include "damacy/store/store.h"

namespace damacy {
namespace {

using detail::FileName;

// Python that mounts a zip file; empty for other files.
std::string how_to_mount(const std::filesystem::path& path) {
  const auto extension = path.extension();
  if (extension != ".zip" && extension != ".ozx") return {};
  return formatted(": damacy.mount(\"store://NAME/\", zarr.storage.ZipStore(\"{}\")) reads a zip file", path.string());
}

// The first part of a path that does not exist or is not a directory; empty for a directory.
std::string why_no_directory(const std::filesystem::path& path) {
  std::error_code failed;
  const auto type = std::filesystem::status(path, failed).type();
  const auto above = path.parent_path();
  if (type == std::filesystem::file_type::directory || above == path) return {};
  if (type != std::filesystem::file_type::not_found)
    return failed ? std::string() : formatted("{} is not a directory{}", path.string(), how_to_mount(path));
  const std::string why = why_no_directory(above);
  return why.empty() ? formatted("there is no '{}' in {}", path.filename().string(), above.string()) : why;
}

struct CloseDirectory {
  void operator()(DIR* directory) const noexcept { ::closedir(directory); }
};
using Directory = std::unique_ptr<DIR, CloseDirectory>;

bool is_directory(DIR* parent, const ::dirent& entry) {
  if (entry.d_type != DT_UNKNOWN && entry.d_type != DT_LNK) return entry.d_type == DT_DIR;
  struct ::stat found{};
  return ::fstatat(::dirfd(parent), entry.d_name, &found, 0) == 0 && S_ISDIR(found.st_mode);
}

std::vector<Entry> entries_of(DIR* directory, const FileName& name) {
  std::vector<Entry> entries;
  for (;;) {
    errno = 0;
    const ::dirent* entry = ::readdir(directory);
    if (entry == nullptr && errno != 0) throw detail::io_error(name, "list", errno, 0);
    if (entry == nullptr) break;
    const std::string_view called = entry->d_name;
    if (called != "." && called != "..") entries.push_back({std::string(called), is_directory(directory, *entry)});
  }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.name < b.name; });
  return entries;
}

class FileStore final : public Store {
 public:
  FileStore(std::string root, std::shared_ptr<OpenFiles> files)
      : name_(std::move(root)), root_(absolute_path(name_)), files_(std::move(files)) {}

  std::string name() const override { return name_; }
  std::string cache_identity() const override { return name_; }  // the stamps of two files differ
  std::string why_absent() override {
    const std::filesystem::path root(root_);
    return why_no_directory(root.has_filename() ? root : root.parent_path());
  }
  std::shared_ptr<Object> open(std::string_view key) override { return files_->open(file(key)); }
  std::optional<Stamp> stamp(std::string_view key) override { return files_->stamp(file(key)); }

  std::vector<Entry> list(std::string_view prefix) override {
    const FileName name = prefix.empty() ? FileName{root_, name_, ""} : file(prefix);
    Directory directory(::opendir(name.path.c_str()));
    if (!directory && (errno == EMFILE || errno == ENFILE)) {
      files_->close_idle();
      directory.reset(::opendir(name.path.c_str()));
    }
    if (directory) return entries_of(directory.get(), name);
    if (detail::is_absent(errno)) return {};
    throw detail::io_error(name, "list", errno, 0);
  }

 private:
  FileName file(std::string_view key) const {
    check_key(key);
    return {formatted("{}/{}", root_, key), name_, std::string(key)};
  }

  const std::string name_;
  const std::string root_;
  const std::shared_ptr<OpenFiles> files_;
};

}  // namespace

std::shared_ptr<Store> make_file_store(std::string root, std::size_t max_open) {
  return make_file_store(std::move(root), make_open_files(max_open));
}

std::shared_ptr<Store> make_file_store(std::string root, std::shared_ptr<OpenFiles> files) {
  return std::make_shared<FileStore>(std::move(root), std::move(files));
}

}  // namespace damacy
