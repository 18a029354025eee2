#!/usr/bin/python3
"""A server of the Model Context Protocol with one tool that sleeps; it writes down what it hears."""
import json, os, sys, time
log = open(os.path.expanduser("~/mcp.log"), "a")
began = time.time()
for line in sys.stdin:
    message = json.loads(line)
    log.write(f"{time.time() - began:.1f} {line.strip()[:600]}\n"); log.flush()
    method, id = message.get("method"), message.get("id")
    if id is None or method is None:
        continue
    if method == "initialize":
        result = {"protocolVersion": message["params"]["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": {"name": "agentctl", "version": "1"}}
    elif method == "tools/list":
        result = {"tools": [{"name": "list_sessions", "description": "d", "inputSchema": {"type": "object", "properties": {"seconds": {"type": "number"}}}, "annotations": {"readOnlyHint": True}}]}
    elif method == "tools/call":
        time.sleep(message["params"].get("arguments", {}).get("seconds", 0))
        result = {"content": [{"type": "text", "text": "answer of the tool"}], "structuredContent": {"sessions": []}}
    else:
        result = {}
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": id, "result": result}) + "\n"); sys.stdout.flush()
