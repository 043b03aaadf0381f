/* Loads the shared object of a package: it needs no other library, only a few functions by name, has no thread-local
 * data, and runs no code when it is loaded. Format: System V ABI, chapters 4 and 5, with the supplements of the
 * processors for the relocations. */
#include "mi_driver.h"

#include <linux/elf.h>

/* Relocation numbers: those the processor supplements call RELATIVE, 64 or ABS64, GLOB_DAT and JUMP_SLOT (RISC-V has
 * no GLOB_DAT: 64 serves for both). */
#if defined(__x86_64__)
enum { MACHINE = EM_X86_64, RELATIVE = 8, ADDRESS = 1, DATA = 6, CALL = 7 };
#elif defined(__aarch64__)
enum { MACHINE = EM_AARCH64, RELATIVE = 1027, ADDRESS = 257, DATA = 1025, CALL = 1026 };
#elif defined(__riscv)
enum { MACHINE = EM_RISCV, RELATIVE = 3, ADDRESS = 2, DATA = -1, CALL = 5 };
#endif
enum { TAGS = 35, GNU_HASH_TAG = 0x6ffffef5 };

/* Symbols in a table that only its hash table can count (DT_GNU_HASH has no documented standard; this is what the
 * linkers write: buckets of chains, the last link of each marked by its lowest bit). */
static uint32_t count_by_gnu_hash(const uint32_t *hash) {
    uint32_t buckets = hash[0], first = hash[1], bloom = hash[2], last = 0;
    const uint32_t *bucket = hash + 4 + 2 * (size_t)bloom, *chain = bucket + buckets;
    for (uint32_t i = 0; i < buckets; i++) {
        last = bucket[i] > last ? bucket[i] : last;
    }
    if (last < first) {
        return first;
    }
    while ((chain[last - first] & 1) == 0) {
        last++;
    }
    return last + 1;
}

static uint64_t address_of(const driver_library *library, uint32_t index) {
    const Elf64_Sym *symbol = (const Elf64_Sym *)library->symbols + index;
    const char *name = library->strings + symbol->st_name;
    if (symbol->st_shndx != SHN_UNDEF) {
        return (uint64_t)(uintptr_t)library->base + symbol->st_value;
    }
    void *function = driver_function(name);
    if (function == NULL && symbol->st_info >> 4 != STB_WEAK) {
        driver_die("the code needs a function that the driver lacks: ", name, NULL);
    }
    return (uint64_t)(uintptr_t)function;
}

static void relocate(const driver_library *library, const Elf64_Rela *table, uint64_t bytes) {
    for (uint64_t i = 0; i < bytes / sizeof *table; i++) {
        uint64_t *at = (uint64_t *)(library->base + table[i].r_offset);
        switch (ELF64_R_TYPE(table[i].r_info)) {
        case RELATIVE:
            *at = (uint64_t)(uintptr_t)library->base + (uint64_t)table[i].r_addend;
            break;
        case ADDRESS:
        case DATA:
        case CALL:
            *at = address_of(library, (uint32_t)ELF64_R_SYM(table[i].r_info)) + (uint64_t)table[i].r_addend;
            break;
        default:
            driver_die("the code has a relocation that the driver does not know", NULL);
        }
    }
}

/* Reads the tables that a dynamic section names; `value` receives its entries by tag. Whether there are symbols. */
static int read_dynamic(driver_library *library, const Elf64_Dyn *dynamic, uint64_t value[TAGS]) {
    const uint32_t *gnu = NULL;
    for (; dynamic->d_tag != DT_NULL; dynamic++) {
        if (dynamic->d_tag > 0 && dynamic->d_tag < TAGS) {
            value[dynamic->d_tag] = dynamic->d_un.d_val;
        } else if (dynamic->d_tag == GNU_HASH_TAG) {
            gnu = (const uint32_t *)(library->base + dynamic->d_un.d_ptr);
        }
    }
    if (value[DT_SYMTAB] == 0 || value[DT_STRTAB] == 0 || (value[DT_HASH] == 0 && gnu == NULL)) {
        return 0;
    }
    library->symbols = library->base + value[DT_SYMTAB];
    library->strings = (const char *)library->base + value[DT_STRTAB];
    library->count = value[DT_HASH] ? ((const uint32_t *)(library->base + value[DT_HASH]))[1] : count_by_gnu_hash(gnu);
    return 1;
}

static void bind(driver_library *library, const Elf64_Dyn *dynamic) {
    uint64_t value[TAGS] = {0};
    if (!read_dynamic(library, dynamic, value)) {
        driver_die("the code has no table of symbols", NULL);
    }
    relocate(library, (const Elf64_Rela *)(library->base + value[DT_RELA]), value[DT_RELASZ]);
    relocate(library, (const Elf64_Rela *)(library->base + value[DT_JMPREL]), value[DT_PLTRELSZ]);
}

driver_library driver_open_mapped(const unsigned char *file) {
    const Elf64_Ehdr *header = (const Elf64_Ehdr *)file;
    const Elf64_Phdr *segments = (const Elf64_Phdr *)(file + header->e_phoff), *dynamic = NULL, *first = NULL;
    for (int i = 0; i < header->e_phnum; i++) {
        dynamic = segments[i].p_type == PT_DYNAMIC ? &segments[i] : dynamic;
        first = segments[i].p_type == PT_LOAD && first == NULL ? &segments[i] : first;
    }
    driver_library library = {0};
    if (dynamic != NULL && first != NULL) {
        uint64_t value[TAGS] = {0};
        library.base = (unsigned char *)(uintptr_t)(file + first->p_offset - first->p_vaddr);
        read_dynamic(&library, (const Elf64_Dyn *)(library.base + dynamic->p_vaddr), value);
    }
    return library;
}

driver_library driver_load(const unsigned char *file, int64_t bytes) {
    const Elf64_Ehdr *header = (const Elf64_Ehdr *)file;
    if (bytes < (int64_t)sizeof *header || header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_machine != MACHINE) {
        driver_die("the code is not for this kind of processor", NULL);
    }
    const Elf64_Phdr *segments = (const Elf64_Phdr *)(file + header->e_phoff), *dynamic = NULL;
    uint64_t end = 0;
    for (int i = 0; i < header->e_phnum; i++) {
        uint64_t last = segments[i].p_vaddr + segments[i].p_memsz;
        end = segments[i].p_type == PT_LOAD && last > end ? last : end;
    }
    driver_library library = {.base = driver_memory((int64_t)end)};
    for (int i = 0; i < header->e_phnum; i++) {
        const Elf64_Phdr *s = &segments[i];
        if (s->p_type == PT_LOAD) {
            __builtin_memcpy(library.base + s->p_vaddr, file + s->p_offset, s->p_filesz);
        } else if (s->p_type == PT_DYNAMIC) {
            dynamic = s;
        } else if (s->p_type == PT_TLS) {
            driver_die("the code has thread-local data", NULL);
        }
    }
    if (dynamic == NULL) {
        driver_die("the code is no shared object", NULL);
    }
    bind(&library, (const Elf64_Dyn *)(library.base + dynamic->p_vaddr));
    for (int i = 0; i < header->e_phnum; i++) {
        const Elf64_Phdr *s = &segments[i];
        if (s->p_type == PT_LOAD && (s->p_flags & PF_X) != 0) {
            uint64_t start = s->p_vaddr / s->p_align * s->p_align;
            driver_make_executable(library.base + start, (int64_t)(s->p_vaddr + s->p_memsz - start));
        }
    }
    return library;
}

void *driver_find(const driver_library *library, const char *name) {
    const Elf64_Sym *symbols = library->symbols;
    for (uint32_t i = 1; i < library->count; i++) {
        if (symbols[i].st_shndx != SHN_UNDEF && driver_same(library->strings + symbols[i].st_name, name)) {
            return library->base + symbols[i].st_value;
        }
    }
    return NULL;
}

void *driver_symbol(const driver_library *library, const char *name) {
    void *found = driver_find(library, name);
    if (found == NULL) {
        driver_die("the code lacks the function ", name, NULL);
    }
    return found;
}
