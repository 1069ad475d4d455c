// A store whose objects are parts of other objects, as a document of references says. Opens the document once, and the
// objects that it names when they are needed, by their uris. Does not know what the bytes mean.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "damacy/store/references.h"
#include "damacy/store/store.h"

namespace damacy {

// `uri`: a document of kerchunk, JSON of version 1, at most Limits::group_document_bytes and Limits::references. It may
// name objects of its own origin and bucket, and those below `allow`; a local document may also name files. Objects are
// reached by the options that are mounted for their uris. For mount() under store://NAME/.
//
// Throws Error(notfound, "no-object"), Error(inval) with the reasons uri and limit, Error(decode) with the reasons
// json, metadata and duplicate-key, Error::unsupported(…, "references") for templates, gen and Parquet, and what
// reading the document throws.
//
// An object that a reference names and that is not there is an Error(io, "io"), and one that ends before the range is
// an Error(io, "short-read"): it is never an absent chunk.
[[nodiscard]] std::shared_ptr<Store> make_reference_store(std::string_view uri,
                                                          std::span<const std::string> allow = {});

// The same of references whose urls are checked and complete; `name` is what errors call the store.
[[nodiscard]] std::shared_ptr<Store> make_reference_store(std::string name, References references);

}  // namespace damacy
