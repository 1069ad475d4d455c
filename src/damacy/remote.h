// Stores that uris name by a prefix, for the whole process: after mount("store://era5/", store) the uri
// "store://era5/a/b" names the array or group at the path "a/b" of that store, wherever a uri is taken. The uris
// http(s)://, s3:// and gs:// need no mount; mount("s3://bucket/", StoreOptions{…}) says how they are reached.
// make_reference_store() makes a store of a document of references (kerchunk). RemoteFile reads ranges of one object.
#pragma once

#include "damacy/core/error.h"
#include "damacy/remote/remote_file.h"
#include "damacy/store/mounts.h"
#include "damacy/store/reference_store.h"
#include "damacy/store/store.h"
#include "damacy/store/store_options.h"
