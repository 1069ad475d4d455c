// The process keeps some files open, for all stores. One that was replaced or has changed is opened again.
#include "damacy/fileio/gds_store.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <list>
#include <random>
#include <tuple>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "damacy/core/error.h"
#include "damacy/core/fork.h"
#include "damacy/core/formatted.h"
#include "damacy/core/mutex.h"
#include "damacy/core/on_failure.h"
#include "damacy/fileio/file.h"

namespace damacy {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kKept = 32;
constexpr std::string_view kPartialPrefix = ".damacy-", kPartialSuffix = ".partial";

void check_key(std::string_view key) {
  bool is_inside = !key.empty() && key.find('\0') == key.npos;
  for (std::size_t begin = 0; is_inside && begin <= key.size();) {
    const std::size_t end = std::min(key.find('/', begin), key.size());
    const std::string_view part = key.substr(begin, end - begin);
    is_inside = !part.empty() && part != "." && part != "..";
    begin = end + 1;
  }
  if (!is_inside)
    throw Error(Status::inval, formatted("the key \"{}\" is not below the root of the store", key), "arguments");
}

bool means_absent(int number) noexcept {
  return number == ENOENT || number == ENOTDIR || number == EISDIR || number == ESPIPE || number == ENXIO;
}

// A file that keeps its stamp keeps its bytes.
using FileStamp = std::tuple<dev_t, ino_t, off_t, time_t, long>;

FileStamp stamp_of(const struct ::stat& found) {
  return {found.st_dev, found.st_ino, found.st_size, found.st_mtim.tv_sec, found.st_mtim.tv_nsec};
}

// Of a regular file; empty: there is none.
std::optional<struct ::stat> stat_of(const std::string& path) {
  struct ::stat found{};
  if (::stat(path.c_str(), &found) == 0)
    return S_ISREG(found.st_mode) ? std::optional<struct ::stat>(found) : std::nullopt;
  if (means_absent(errno)) return std::nullopt;
  throw FileError::open_failed(errno, path);
}

// Unlike those of other writers, also of other processes.
std::string partial_name() {
  thread_local std::random_device random;
  return formatted("{}{}-{}{}", kPartialPrefix, random(), random(), kPartialSuffix);
}

class OpenFiles {
 public:
  std::optional<GDSStore::Object> open(const std::string& path, const FileOptions& settings) {
    const auto found = stat_of(path);
    if (auto file = kept(path, settings, found)) return GDSStore::Object{std::move(file), size_of(*found)};
    if (!found) return std::nullopt;
    return open_anew(path, settings);
  }

 private:
  struct Kept {
    std::string path;
    FileOptions settings;
    FileStamp stamp;
    std::shared_ptr<CuFile> file;

    bool is_of(const std::string& other, const FileOptions& how) const { return path == other && settings == how; }
  };

  static std::uint64_t size_of(const struct ::stat& found) { return static_cast<std::uint64_t>(found.st_size); }

  // Null: there is none with this stamp.
  std::shared_ptr<CuFile> kept(const std::string& path, const FileOptions& settings,
                               const std::optional<struct ::stat>& found) {
    const Lock lock(mutex_);
    const auto at = std::ranges::find_if(files_, [&](const Kept& one) { return one.is_of(path, settings); });
    if (at == files_.end()) return nullptr;
    if (found && at->stamp == stamp_of(*found)) {
      files_.splice(files_.begin(), files_, at);
      return at->file;
    }
    files_.erase(at);  // is closed when its last read ends
    return nullptr;
  }

  std::optional<GDSStore::Object> open_anew(const std::string& path, const FileOptions& settings) {
    auto file = opened(path, settings);
    if (file == nullptr) return std::nullopt;
    struct ::stat found{};
    const FileUse use(file->file());
    if (::fstat(use->descriptor(), &found) != 0) throw FileError::open_failed(errno, path);
    const Lock lock(mutex_);
    std::erase_if(files_, [&](const Kept& one) { return one.is_of(path, settings); });
    files_.push_front({path, settings, stamp_of(found), file});
    if (files_.size() > kKept) files_.pop_back();
    return GDSStore::Object{std::move(file), size_of(found)};
  }

  // Null: there is no such file. If the process has too many open files, those that are kept are let go.
  std::shared_ptr<CuFile> opened(const std::string& path, const FileOptions& settings) {
    for (;;) {
      try {
        return std::make_shared<CuFile>(path, "r", CuFileOptions{.mode = 0644, .dir_fd = {}, .settings = settings});
      } catch (const FileError& error) {
        const int number = error.system_errno();
        if (means_absent(number)) return nullptr;
        if ((number != EMFILE && number != ENFILE) || !let_go()) throw;
      }
    }
  }

  bool let_go() {
    const Lock lock(mutex_);
    return !std::exchange(files_, {}).empty();
  }

  Mutex mutex_;
  std::list<Kept> files_ DAMACY_GUARDED_BY(mutex_);  // used last first
};

}  // namespace

NewObject::NewObject(std::string path, std::string partial, const FileOptions& settings)
    : path_(std::move(path)),
      partial_(std::move(partial)),
      file_(std::make_shared<CuFile>(partial_, "x", CuFileOptions{.mode = 0666, .dir_fd = {}, .settings = settings})) {}

void NewObject::commit(const CommitOptions& how) {
  if (file_ == nullptr) throw Error(Status::inval, formatted("{} was committed or discarded", path_), "arguments");
  const OnFailure removes([this] { discard(); });
  file_->close();
  std::error_code failed;
  if (how.replaces_folder && fs::is_directory(path_, failed)) fs::remove_all(path_, failed);
  if (how.only_new ? ::link(partial_.c_str(), path_.c_str()) != 0 : ::rename(partial_.c_str(), path_.c_str()) != 0)
    throw FileError::open_failed(errno, path_);
  if (how.only_new) ::unlink(partial_.c_str());
  file_.reset();
}

void NewObject::discard() noexcept {
  if (std::exchange(file_, nullptr) != nullptr) ::unlink(partial_.c_str());
}

GDSStore::GDSStore(std::string root, const FileOptions& settings) : root_(std::move(root)), settings_(settings) {}

bool GDSStore::is_partial(std::string_view name) {
  name.remove_prefix(name.rfind('/') + 1);  // npos + 1 is 0
  return name.starts_with(kPartialPrefix) && name.ends_with(kPartialSuffix);
}

std::string GDSStore::path_of(std::string_view key) const {
  check_key(key);
  return formatted("{}/{}", root_, key);
}

std::shared_ptr<CuFile> GDSStore::file_of(std::string_view key) {
  if (auto object = open(key)) return std::move(object->file);
  throw Error(Status::notfound, formatted("the store at {} has no object of that key", root_), "no-object").at_key(key);
}

std::optional<std::uint64_t> GDSStore::size(std::string_view key) {
  const auto found = stat_of(path_of(key));
  return found ? std::optional(static_cast<std::uint64_t>(found->st_size)) : std::nullopt;
}

std::optional<GDSStore::Object> GDSStore::open(std::string_view key) {
  return one_per_process<OpenFiles>().open(path_of(key), settings_);
}

void GDSStore::read(std::string_view key, const FileMemory& memory, std::uint64_t offset) {
  file_of(key)->read(memory, offset, {.task_size = 0, .exact = true});
}

IOFuture GDSStore::begin_read(std::string_view key, const FileMemory& memory, std::uint64_t offset) {
  return file_of(key)->pread(memory, offset, {.task_size = 0, .exact = true});
}

IOFuture GDSStore::begin_read(std::span<const Range> ranges) {
  std::vector<std::shared_ptr<CuFile>> files;  // the request keeps what it reads
  std::vector<FileRangeOf> all;
  for (const Range& range : ranges) {
    files.push_back(file_of(range.key));
    all.push_back({files.back().get(), range.memory, range.offset});
  }
  return preadv_many(all, {.task_size = 0, .exact = true});
}

NewObject GDSStore::create(std::string_view key) {
  std::string path = path_of(key);
  const std::string folder = path.substr(0, path.rfind('/'));
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (failed) throw FileError::open_failed(failed.value(), folder);
  return {std::move(path), formatted("{}/{}", folder, partial_name()), settings_};
}

void GDSStore::write(std::string_view key, const FileMemory& memory, bool only_new) {
  NewObject object = create(key);
  object.file()->write(memory);
  object.commit({.only_new = only_new});
}

bool GDSStore::erase(std::string_view key) {
  const std::string path = path_of(key);
  if (::unlink(path.c_str()) == 0) return true;
  if (means_absent(errno)) return false;
  throw FileError::open_failed(errno, path);
}

std::vector<std::string> GDSStore::keys(std::string_view prefix) {
  std::vector<std::string> found;
  std::error_code failed;
  for (fs::recursive_directory_iterator at(root_, failed), end; !failed && at != end; at.increment(failed)) {
    if (!at->is_regular_file(failed) || is_partial(at->path().filename().string())) continue;
    std::string key = at->path().lexically_relative(root_).generic_string();
    if (key.starts_with(prefix)) found.push_back(std::move(key));
  }
  if (failed && !means_absent(failed.value())) throw FileError::open_failed(failed.value(), root_);
  std::ranges::sort(found);
  return found;
}

}  // namespace damacy
