package catalog

import (
	"path/filepath"
	"strings"
)

// mimeTypes are the types of files by their ending, the same on every machine:
// what systems keep for this differs, and knows .ts as a video.
var mimeTypes = map[string]string{
	".bash": "application/x-sh", ".c": "text/x-c", ".cc": "text/x-c++", ".cfg": "text/plain", ".conf": "text/plain", ".cpp": "text/x-c++",
	".cs": "text/x-csharp", ".css": "text/css", ".csv": "text/csv", ".diff": "text/x-diff", ".go": "text/x-go", ".h": "text/x-c",
	".hpp": "text/x-c++", ".htm": "text/html", ".html": "text/html", ".ini": "text/plain", ".java": "text/x-java", ".js": "text/javascript",
	".json": "application/json", ".jsonl": "application/jsonl", ".jsx": "text/javascript", ".kt": "text/x-kotlin", ".log": "text/plain",
	".lua": "text/x-lua", ".md": "text/markdown", ".mjs": "text/javascript", ".patch": "text/x-diff", ".php": "text/x-php", ".pl": "text/x-perl",
	".proto": "text/x-protobuf", ".ps1": "text/x-powershell", ".py": "text/x-python", ".rb": "text/x-ruby", ".rs": "text/x-rust", ".rst": "text/x-rst",
	".scala": "text/x-scala", ".sh": "application/x-sh", ".sql": "application/sql", ".svg": "image/svg+xml", ".swift": "text/x-swift",
	".tex": "text/x-tex", ".toml": "application/toml", ".ts": "text/x-typescript", ".tsv": "text/tab-separated-values", ".tsx": "text/x-typescript",
	".txt": "text/plain", ".xml": "application/xml", ".yaml": "application/yaml", ".yml": "application/yaml",

	".7z": "application/x-7z-compressed", ".avif": "image/avif", ".bmp": "image/bmp", ".bz2": "application/x-bzip2", ".gif": "image/gif",
	".gz": "application/gzip", ".ico": "image/x-icon", ".jar": "application/java-archive", ".jpeg": "image/jpeg", ".jpg": "image/jpeg",
	".mp3": "audio/mpeg", ".mp4": "video/mp4", ".ogg": "audio/ogg", ".otf": "font/otf", ".pdf": "application/pdf", ".png": "image/png",
	".tar": "application/x-tar", ".tif": "image/tiff", ".tiff": "image/tiff", ".ttf": "font/ttf", ".wasm": "application/wasm", ".wav": "audio/wav",
	".webm": "video/webm", ".webp": "image/webp", ".woff": "font/woff", ".woff2": "font/woff2", ".xz": "application/x-xz", ".zip": "application/zip",
	".zst": "application/zstd",
}

// mimeType is the type of a file by its name, or what is certain about it.
func mimeType(name string, text bool) string {
	if t := mimeTypes[strings.ToLower(filepath.Ext(name))]; t != "" {
		return t
	}
	if text {
		return "text/plain"
	}
	return "application/octet-stream"
}
