// Reads the pickle of an archive that PyTorch wrote. Not public; exported for libtorch/.
#pragma once

#include "zip-inl.hpp"
#include "../pt.hpp"

namespace weft::io {

/// Returns the value of the entry data.pkl. `script` accepts TorchScript archives, as torch::save writes them; their
/// code is ignored. Errors as load_pt.
WEFT_API PtValue read_pt(const ZipReader& archive, Device device, bool script);

}  // namespace weft::io
