//! A server in shell, for what the fixture never does: to die in the middle, and to tell the test
//! how far it is.

/// A server with the tool `echo`, in the legacy era. With its `n`-th call it runs `then`.
pub(crate) fn script(n: u32, then: &str) -> String {
    let answer = |result: &str| format!(r#"result='"result":{result}'"#);
    let initialized = answer(
        r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"sh","version":"1"}}"#,
    );
    let listed = answer(r#"{"tools":[{"name":"echo","inputSchema":{"type":"object"}}]}"#);
    let called = answer(r#"{"content":[{"type":"text","text":"hello"}]}"#);
    format!(
        r#"calls=0
while IFS= read -r line; do
  case $line in *'"id":'*) ;; *) continue ;; esac
  id=${{line#*'"id":'}}; id=${{id%%[,\}}]*}}
  case $line in
    *'"initialize"'*) {initialized} ;;
    *'"tools/list"'*) {listed} ;;
    *'"tools/call"'*) {called}; calls=$((calls+1)); [ $calls -ne {n} ] || {{ {then}; }} ;;
    *) result='"error":{{"code":-32601,"message":"unknown method"}}' ;;
  esac
  printf '{{"jsonrpc":"2.0","id":%s,%s}}\n' "$id" "$result"
done"#
    )
}
