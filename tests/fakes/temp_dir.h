// A directory that is there for one test. Knows the file system; nothing else.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <string_view>

namespace damacy {

class TempDir {
 public:
  TempDir() {
    std::string name = (std::filesystem::temp_directory_path() / "damacy-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary directory");
    path_ = name;
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  std::string path() const { return path_.string(); }
  std::string path(std::string_view key) const { return (path_ / key).string(); }

  // A new file takes the place of what was there, as a careful writer does it.
  void put(std::string_view key, std::string_view bytes) const {
    const std::filesystem::path to = path_ / key;
    std::filesystem::create_directories(to.parent_path());
    std::filesystem::path fresh = to;
    fresh += ".new";
    std::ofstream(fresh, std::ios::binary) << bytes;
    std::filesystem::rename(fresh, to);
  }

 private:
  std::filesystem::path path_;
};

}  // namespace damacy
