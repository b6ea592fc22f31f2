// spv2so BUILTINS.bc INPUT.spv LIBRARY.so [--kernel NAME]   (that kernel cut out of the module)
// spv2so BUILTINS.bc INPUT.spv --cache FOLDER   (under the names of its content and of each kernel cut out of it)
//
// Translates a SPIR-V module into a shared library for the host: llvm-spirv reads it, each kernel becomes a
// function that runs a work-group (or one work-item, when it uses barriers), clang compiles and links.
#include <llvm/ADT/DenseSet.h>
#include <llvm/ADT/SetVector.h>
#include <llvm/Bitcode/BitcodeWriter.h>
#include <llvm/Demangle/Demangle.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Verifier.h>
#include <llvm/IRReader/IRReader.h>
#include <llvm/Linker/Linker.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/FileSystem.h>
#include <llvm/Support/Program.h>
#include <llvm/Support/SourceMgr.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Transforms/IPO/AlwaysInliner.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "content_hash.h"
#include "../../backends/hpu/spirv.hpp"

using namespace llvm;

namespace {

constexpr unsigned local_address_space = 3;
constexpr const char* state_placeholder = "weft_work_state";
constexpr const char* barrier_placeholder = "weft_work_barrier";

[[noreturn]] void fail(const Twine& message) {
  errs() << "spv2so: " << message << "\n";
  std::exit(1);
}

void execute(const std::vector<std::string>& command) {
  ErrorOr<std::string> program = sys::findProgramByName(command[0]);
  if (!program) fail("cannot find " + command[0]);
  std::vector<StringRef> arguments(command.begin(), command.end());
  std::string problem;
  int status = sys::ExecuteAndWait(*program, arguments, None, {}, 0, 0, &problem);
  if (status != 0) fail(command[0] + " failed " + problem);
}

std::unique_ptr<Module> read_module(const std::string& path, LLVMContext& context) {
  SMDiagnostic diagnostic;
  auto module = parseIRFile(path, diagnostic, context);
  if (!module) {
    diagnostic.print("spv2so", errs());
    fail("cannot read " + path);
  }
  return module;
}

class Translator {
 public:
  Translator(std::unique_ptr<Module> module, std::unique_ptr<Module> builtins)
      : module_(std::move(module)), context_(module_->getContext()) {
    prepare_functions();
    check_builtins(*builtins);
    module_->setTargetTriple(builtins->getTargetTriple());
    module_->setDataLayout(builtins->getDataLayout());
    if (Linker::linkModules(*module_, std::move(builtins), Linker::LinkOnlyNeeded)) fail("linking failed");
    for (Function& f : *module_) {
      drop_target_attributes(f);
      if (!f.isDeclaration()) f.setLinkage(GlobalValue::InternalLinkage);
    }
  }

  std::unique_ptr<Module> run() {
    for (Function* kernel : kernels_) wrappers_.push_back(make_item_wrapper(*kernel));
    inline_everything();
    kernels_.clear();  // gone, as nothing calls them any more
    std::vector<Constant*> entries;
    for (size_t i = 0; i < wrappers_.size(); ++i) entries.push_back(finish_kernel(*wrappers_[i], parameters_[i]));
    emit_table(entries);
    if (verifyModule(*module_, &errs())) fail("the translated module is not valid");
    return std::move(module_);
  }

 private:
  // SPIR conventions become the host's; everything will be inlined into the kernels.
  void prepare_functions() {
    for (Function& f : *module_) {
      bool is_kernel = f.getCallingConv() == CallingConv::SPIR_KERNEL;
      f.setCallingConv(CallingConv::C);
      for (Instruction& i : instructions(f)) {
        if (auto* call = dyn_cast<CallBase>(&i)) call->setCallingConv(CallingConv::C);
      }
      if (f.isDeclaration()) continue;
      f.removeFnAttr(Attribute::NoInline);
      f.removeFnAttr(Attribute::OptimizeNone);
      f.addFnAttr(Attribute::AlwaysInline);
      f.setLinkage(GlobalValue::InternalLinkage);
      if (is_kernel) kernels_.push_back(&f);
    }
    for (GlobalVariable& g : module_->globals()) {
      if (g.getAddressSpace() != local_address_space) continue;
      g.setInitializer(Constant::getNullValue(g.getValueType()));
      g.setLinkage(GlobalValue::InternalLinkage);
    }
    if (kernels_.empty()) fail("the module has no kernels");
  }

  void check_builtins(const Module& builtins) const {
    std::string missing;
    for (const Function& f : *module_) {
      if (!f.isDeclaration() || f.isIntrinsic() || f.use_empty()) continue;
      const Function* found = builtins.getFunction(f.getName());
      if (!found || found->isDeclaration()) missing += "\n  " + demangle(f.getName().str());
    }
    if (!missing.empty()) fail("builtins that the test driver does not have:" + missing);
  }

  static void drop_target_attributes(Function& f) {
    for (const char* name : {"target-cpu", "target-features", "tune-cpu", "frame-pointer"}) f.removeFnAttr(name);
  }

  // One item: a block that loads the arguments from their places, then one that calls the kernel.
  Function* make_item_wrapper(Function& kernel) {
    Type* byte_pointer = Type::getInt8PtrTy(context_);
    auto* type = FunctionType::get(Type::getVoidTy(context_), {byte_pointer, byte_pointer->getPointerTo()}, false);
    auto* wrapper = Function::Create(type, GlobalValue::InternalLinkage, "weft_run_" + kernel.getName(), *module_);
    wrapper->addFnAttr(Attribute::NoUnwind);
    IRBuilder<> b(BasicBlock::Create(context_, "arguments", wrapper));
    std::string description;
    std::vector<Value*> values;
    for (Argument& parameter : kernel.args()) {
      Value* slot = b.CreateConstGEP1_32(byte_pointer, wrapper->getArg(1), parameter.getArgNo());
      Value* place = b.CreateLoad(byte_pointer, slot);
      values.push_back(load_argument(b, parameter, place, &description));
    }
    BasicBlock* body = BasicBlock::Create(context_, "body", wrapper);
    b.CreateBr(body);
    b.SetInsertPoint(body);
    CallInst* call = b.CreateCall(&kernel, values);
    call->setAttributes(kernel.getAttributes().removeFnAttributes(context_));
    b.CreateRetVoid();
    parameters_.push_back(description);
    return wrapper;
  }

  Value* load_argument(IRBuilder<>& b, Argument& parameter, Value* place, std::string* description) {
    const DataLayout& layout = module_->getDataLayout();
    Type* type = parameter.getType();
    auto describe_value = [&](Type* t) { *description += "v" + std::to_string(layout.getTypeAllocSize(t)) + " "; };
    if (parameter.hasByValAttr()) {
      describe_value(parameter.getParamByValType());
      share_if_read_only(parameter);
      return b.CreateBitCast(place, type);
    }
    if (!type->isPointerTy()) {
      describe_value(type);
    } else {
      *description += type->getPointerAddressSpace() == local_address_space ? "l " : "p ";
    }
    return b.CreateLoad(type, b.CreateBitCast(place, type->getPointerTo()));
  }

  // A struct that the kernel only reads needs no copy for each work-item.
  void share_if_read_only(Argument& parameter) {
    if (!only_read(&parameter)) return;
    parameter.removeAttr(Attribute::ByVal);
    parameter.addAttr(Attribute::NoAlias);
    parameter.addAttr(Attribute::ReadOnly);
  }

  static bool only_read(const Value* pointer) {
    for (const User* user : pointer->users()) {
      if (isa<LoadInst>(user)) continue;
      if (isa<GetElementPtrInst>(user) || isa<BitCastInst>(user) || isa<AddrSpaceCastInst>(user)) {
        if (!only_read(user)) return false;
        continue;
      }
      const auto* copy = dyn_cast<MemCpyInst>(user);
      if (!copy || copy->getRawSource() != pointer || copy->getRawDest() == pointer) return false;
    }
    return true;
  }

  void inline_everything() {
    PassBuilder builder;
    LoopAnalysisManager loops;
    FunctionAnalysisManager functions;
    CGSCCAnalysisManager components;
    ModuleAnalysisManager modules;
    builder.registerModuleAnalyses(modules);
    builder.registerCGSCCAnalyses(components);
    builder.registerFunctionAnalyses(functions);
    builder.registerLoopAnalyses(loops);
    builder.crossRegisterProxies(loops, functions, components, modules);
    AlwaysInlinerPass(/*InsertLifetime=*/true).run(*module_, modules);
  }

  StructType* state_type() {
    if (!state_type_) {
      Type* i64 = Type::getInt64Ty(context_);
      Type* triple = ArrayType::get(i64, 3);
      state_type_ = StructType::create(
          context_, {triple, triple, triple, triple, triple, i64, Type::getInt8PtrTy(context_)}, "WorkState");
    }
    return state_type_;
  }

  // Replaces the placeholders by the state at hand. Returns whether the kernel waits at barriers.
  bool bind_state(Function& function, Value* state) {
    std::vector<CallInst*> states, barriers;
    for (Instruction& i : instructions(function)) {
      auto* call = dyn_cast<CallInst>(&i);
      auto* callee = call ? dyn_cast<Function>(call->getCalledOperand()->stripPointerCasts()) : nullptr;
      if (!callee) continue;
      if (callee->getName() == state_placeholder) states.push_back(call);
      if (callee->getName() == barrier_placeholder) barriers.push_back(call);
    }
    for (CallInst* call : states) {
      IRBuilder<> b(call);
      call->replaceAllUsesWith(b.CreateBitCast(state, call->getType()));
      call->eraseFromParent();
    }
    auto* callback = FunctionType::get(Type::getVoidTy(context_), {Type::getInt8PtrTy(context_)}, false);
    for (CallInst* call : barriers) {
      IRBuilder<> b(call);
      Value* typed = b.CreateBitCast(state, state_type()->getPointerTo());
      Value* raw = b.CreateLoad(Type::getInt8PtrTy(context_), b.CreateStructGEP(state_type(), typed, 6));
      b.CreateCall(callback, b.CreateBitCast(raw, callback->getPointerTo()),
                   {b.CreateBitCast(state, Type::getInt8PtrTy(context_))});
      call->eraseFromParent();
    }
    return !barriers.empty();
  }

  // Wraps the body into loops over the local ids, on a private copy of the state that the optimiser dissolves.
  void add_group_loops(Function& function) {
    BasicBlock* entry = &function.getEntryBlock();
    BasicBlock* body = entry->getSingleSuccessor();
    std::vector<ReturnInst*> returns;
    for (Instruction& i : instructions(function)) {
      if (auto* ret = dyn_cast<ReturnInst>(&i)) returns.push_back(ret);
    }
    BasicBlock* next_item = BasicBlock::Create(context_, "next_item", &function);
    for (ReturnInst* ret : returns) {
      BranchInst::Create(next_item, ret);
      ret->eraseFromParent();
    }
    entry->getTerminator()->eraseFromParent();

    IRBuilder<> b(entry);
    Type* i64 = b.getInt64Ty();
    AllocaInst* state = b.CreateAlloca(state_type());
    uint64_t bytes = module_->getDataLayout().getTypeAllocSize(state_type());
    b.CreateMemCpy(state, Align(8), function.getArg(0), Align(8), bytes);
    Value* ids[3];
    Value* sizes[3];
    BasicBlock* headers[3];
    PHINode* counters[3];
    for (int d = 0; d < 3; ++d) {
      ids[d] = b.CreateConstGEP2_32(state_type()->getElementType(0), b.CreateStructGEP(state_type(), state, 0), 0, d);
      Value* size =
          b.CreateConstGEP2_32(state_type()->getElementType(2), b.CreateStructGEP(state_type(), state, 2), 0, d);
      sizes[d] = b.CreateLoad(i64, size);
    }
    for (int d = 2; d >= 0; --d) {
      BasicBlock* previous = b.GetInsertBlock();
      headers[d] = BasicBlock::Create(context_, "items", &function, body);
      b.CreateBr(headers[d]);
      b.SetInsertPoint(headers[d]);
      counters[d] = b.CreatePHI(i64, 2);
      counters[d]->addIncoming(b.getInt64(0), previous);
      b.CreateStore(counters[d], ids[d]);
    }
    b.CreateBr(body);
    b.SetInsertPoint(next_item);
    for (int d = 0; d < 3; ++d) {
      Value* next = b.CreateAdd(counters[d], b.getInt64(1), "", /*NUW=*/true, /*NSW=*/true);
      counters[d]->addIncoming(next, b.GetInsertBlock());
      BasicBlock* after = BasicBlock::Create(context_, "after", &function);
      b.CreateCondBr(b.CreateICmpULT(next, sizes[d]), headers[d], after);
      b.SetInsertPoint(after);
    }
    b.CreateRetVoid();
    bind_state(function, state);
  }

  bool has_barrier(Function& function) const {
    for (Instruction& i : instructions(function)) {
      auto* call = dyn_cast<CallInst>(&i);
      auto* callee = call ? dyn_cast<Function>(call->getCalledOperand()->stripPointerCasts()) : nullptr;
      if (callee && callee->getName() == barrier_placeholder) return true;
    }
    return false;
  }

  // The __local variables that the function mentions, also inside constant expressions.
  static void collect_locals(const Value* value, DenseSet<const Value*>& seen, SetVector<GlobalVariable*>& locals) {
    const auto* user = dyn_cast<User>(value);
    if (!user || !seen.insert(value).second) return;
    if (const auto* g = dyn_cast<GlobalVariable>(value)) {
      if (g->getAddressSpace() == local_address_space) locals.insert(const_cast<GlobalVariable*>(g));
      return;
    }
    for (const Value* operand : user->operands()) {
      if (isa<Constant>(operand)) collect_locals(operand, seen, locals);
    }
  }

  Constant* array_pointer(const std::vector<Constant*>& items, Type* type) {
    auto* array = ConstantArray::get(ArrayType::get(type, items.size()), items);
    auto* global = new GlobalVariable(*module_, array->getType(), true, GlobalValue::PrivateLinkage, array);
    return ConstantExpr::getBitCast(global, Type::getInt8PtrTy(context_));
  }

  Constant* string_pointer(StringRef text) {
    auto* bytes = ConstantDataArray::getString(context_, text);
    auto* global = new GlobalVariable(*module_, bytes->getType(), true, GlobalValue::PrivateLinkage, bytes);
    return ConstantExpr::getBitCast(global, Type::getInt8PtrTy(context_));
  }

  // Makes the function that the driver calls; returns its table entry.
  Constant* finish_kernel(Function& function, const std::string& parameters) {
    Type* byte_pointer = Type::getInt8PtrTy(context_);
    Type* i64 = Type::getInt64Ty(context_);
    bool barrier = has_barrier(function);
    if (barrier) {
      bind_state(function, function.getArg(0));
    } else {
      add_group_loops(function);
    }
    DenseSet<const Value*> seen;
    SetVector<GlobalVariable*> locals;
    for (Instruction& i : instructions(function)) collect_locals(&i, seen, locals);
    std::vector<Constant*> blocks;
    for (GlobalVariable* local : locals) {
      uint64_t size = module_->getDataLayout().getTypeAllocSize(local->getValueType());
      Constant* address = ConstantExpr::getAddrSpaceCast(local, local->getValueType()->getPointerTo());
      blocks.push_back(
          ConstantStruct::getAnon({ConstantExpr::getBitCast(address, byte_pointer), ConstantInt::get(i64, size)}));
    }
    StringRef name = function.getName().drop_front(strlen("weft_run_"));
    return ConstantStruct::getAnon({string_pointer(name), string_pointer(parameters),
                                    ConstantExpr::getBitCast(&function, byte_pointer),
                                    array_pointer(blocks, StructType::get(byte_pointer, i64)),
                                    ConstantInt::get(i64, blocks.size()), ConstantInt::get(i64, barrier)});
  }

  void emit_table(const std::vector<Constant*>& entries) {
    Type* i64 = Type::getInt64Ty(context_);
    Constant* table = ConstantStruct::getAnon(
        {ConstantInt::get(i64, entries.size()), array_pointer(entries, entries.front()->getType())});
    new GlobalVariable(*module_, table->getType(), true, GlobalValue::ExternalLinkage, table, WEFT_KERNEL_TABLE_SYMBOL);
  }

  std::unique_ptr<Module> module_;
  LLVMContext& context_;
  StructType* state_type_ = nullptr;
  std::vector<Function*> kernels_;
  std::vector<Function*> wrappers_;
  std::vector<std::string> parameters_;
};

std::vector<uint32_t> read_words(const std::string& spirv) {
  std::ifstream file(spirv, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), {});
  if (bytes.empty() || bytes.size() % sizeof(uint32_t) != 0) fail("cannot read " + spirv);
  std::vector<uint32_t> words(bytes.size() / sizeof(uint32_t));
  std::memcpy(words.data(), bytes.data(), bytes.size());
  return words;
}

std::string library_name(const std::vector<uint32_t>& words) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(words.data());
  return weft::testing::ze::content_hash(bytes, words.size() * sizeof(uint32_t)) + ".so";
}

// The library of all kernels serves the modules that have one of them each.
void link_single_kernels(const std::vector<uint32_t>& module, const std::string& folder) {
  const std::string library = library_name(module);
  for (const std::string& kernel : weft::spirv::kernel_names(module)) {
    const std::string link = folder + "/" + library_name(weft::spirv::only_kernel(module, kernel));
    unlink(link.c_str());
    if (symlink(library.c_str(), link.c_str()) != 0) fail("cannot write " + link);
  }
}

// Files that disappear with the process, also when it fails.
std::vector<std::string> temporary_files;

std::string temporary(const std::string& name) {
  static bool registered = std::atexit([] {
                             for (const std::string& path : temporary_files) unlink(path.c_str());
                           }) == 0;
  (void)registered;
  temporary_files.push_back(name);
  return name;
}

void compile(const Module& module, const std::string& base, const std::string& library) {
  std::string bitcode = temporary(base + ".host.bc"), object = temporary(base + ".tmp.so");
  std::error_code error;
  {
    raw_fd_ostream out(bitcode, error);
    if (error) fail("cannot write " + bitcode);
    WriteBitcodeToFile(module, out);
  }
  std::vector<std::string> command = {WEFT_CLANG, "-shared", "-fPIC", "-Wno-override-module", "-ffp-contract=off"};
  SmallVector<StringRef, 8> flags;
  StringRef(WEFT_TRANSLATE_FLAGS).split(flags, ' ', -1, false);
  for (StringRef flag : flags) command.push_back(flag.str());
  for (const char* word : {"-Wl,-z,defs", "-o"}) command.push_back(word);
  command.insert(command.end(), {object, bitcode, "-lm"});
  execute(command);
  if (std::rename(object.c_str(), library.c_str()) != 0) fail("cannot write " + library);
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  const bool to_cache = words.size() == 4 && words[2] == "--cache";
  const bool one_kernel = words.size() == 5 && words[3] == "--kernel";
  if (words.size() != 3 && !to_cache && !one_kernel) {
    fail("usage: spv2so BUILTINS.bc INPUT.spv (LIBRARY.so [--kernel NAME] | --cache FOLDER)");
  }
  if (to_cache) sys::fs::create_directories(words[3]);
  std::vector<uint32_t> spirv = read_words(words[1]);
  std::string library = to_cache ? words[3] + "/" + library_name(spirv) : words[2];
  std::string base = library + "." + std::to_string(getpid());

  std::string input = words[1];
  if (one_kernel) {
    spirv = weft::spirv::only_kernel(spirv, words[4]);
    input = temporary(base + ".spv");
    std::ofstream(input, std::ios::binary).write(reinterpret_cast<const char*>(spirv.data()), spirv.size() * 4);
  }
  std::string bitcode = temporary(base + ".bc");
  execute({WEFT_LLVM_SPIRV, "-r", input, "-o", bitcode});
  LLVMContext context;
  Translator translator(read_module(bitcode, context), read_module(words[0], context));
  compile(*translator.run(), base, library);
  if (to_cache) link_single_kernels(spirv, words[3]);
  return 0;
}
