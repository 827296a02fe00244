# tessera_embed(<target> <function> <folder> <extension>): defines tessera::<function>() (see
# include/tessera/shipped.hpp) from the folder's files. Files named *.schema.json are left out.
function(tessera_embed target function folder extension)
  file(GLOB files CONFIGURE_DEPENDS ${folder}/*.${extension})
  list(FILTER files EXCLUDE REGEX "\\.schema\\.json$")
  set(output ${CMAKE_CURRENT_BINARY_DIR}/${function}.cpp)
  add_custom_command(
    OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -DOUTPUT=${output} -DFUNCTION=${function} "-DFILES=${files}"
            -P ${PROJECT_SOURCE_DIR}/cmake/EmbedScript.cmake
    DEPENDS ${files} ${PROJECT_SOURCE_DIR}/cmake/EmbedScript.cmake
    VERBATIM)
  target_sources(${target} PRIVATE ${output})
endfunction()
