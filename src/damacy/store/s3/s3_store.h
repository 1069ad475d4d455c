// s3://BUCKET/PATH and gs://BUCKET/PATH: the objects of a bucket of S3, of a compatible service, or of Google Cloud
// Storage by its S3 interface, over the HTTP store. Knows addresses, regions, signatures and S3's errors; transfers,
// repeats and versions are the HTTP store's.
#pragma once

#include <memory>
#include <string_view>

#include "damacy/store/store.h"
#include "damacy/store/store_options.h"
#include "damacy/store/store_use.h"

namespace damacy::s3 {

[[nodiscard]] bool is_bucket_uri(std::string_view uri);

// Opens no connection. Stores of one bucket without options share what they know of it. Throws Error(inval, "uri" or
// "options").
[[nodiscard]] std::shared_ptr<Store> make_s3_store(std::string_view uri, const StoreUse& use = {});

// The same with options, for uris below a mount: each call makes the store of one of them.
class S3Mount {
 public:
  // `prefix`: s3://BUCKET/ or gs://BUCKET/, or below it.
  S3Mount(std::string_view prefix, const StoreOptions& options);
  [[nodiscard]] std::shared_ptr<Store> store_of(std::string_view uri, const StoreUse& use = {}) const;

 private:
  std::shared_ptr<class Bucket> bucket_;
};

}  // namespace damacy::s3
