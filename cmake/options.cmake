# Compile options of every target of ours. They stay inside the build: installed targets do not carry them.
add_library(nibble_options INTERFACE)
target_compile_options(nibble_options INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wdouble-promotion
  -Wnon-virtual-dtor -Woverloaded-virtual -Wcast-align -Wformat=2
  -ffp-contract=off  # a product and a sum stay two roundings, except where an intrinsic says FMA
  $<$<BOOL:${NIBBLE_WERROR}>:-Werror>)
if(NIBBLE_SANITIZE)
  target_compile_options(nibble_options INTERFACE
    -fsanitize=${NIBBLE_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(nibble_options INTERFACE -fsanitize=${NIBBLE_SANITIZE})
  target_compile_definitions(nibble_options INTERFACE _GLIBCXX_ASSERTIONS)
endif()
