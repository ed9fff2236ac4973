package hosts

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestWindowsInstallerIsWholePowerShell reads install.ps1 with the grammar an
// editor uses: a missing brace or quote would be seen here.
func TestWindowsInstallerIsWholePowerShell(t *testing.T) {
	grammars := filepath.Join(installed(t, "grammars"), "@vscode", "tree-sitter-wasm", "wasm")
	script, err := filepath.Abs(filepath.Join("..", "..", "scripts", "install.ps1"))
	if err != nil {
		t.Fatal(err)
	}
	const reader = `
		const { Parser, Language } = require(process.argv[1] + "/tree-sitter.js");
		(async () => {
			await Parser.init({ locateFile: () => process.argv[1] + "/tree-sitter.wasm" });
			const parser = new Parser();
			parser.setLanguage(await Language.load(process.argv[1] + "/tree-sitter-powershell.wasm"));
			let text = require("node:fs").readFileSync(process.argv[2], "utf8");
			if (process.argv[3]) text = text.replace(process.argv[3], "");
			const root = parser.parse(text).rootNode;
			const look = n => {
				if (n.isError || n.isMissing) console.log((n.startPosition.row + 1) + ": " + n.type + " " + n.text.slice(0, 60));
				n.children.forEach(look);
			};
			look(root);
			console.log(root.hasError ? "broken" : "whole, " + root.descendantCount + " nodes");
		})();`
	engine := &host{argv: []string{node(t)}, dir: t.TempDir(), env: bareEnv(t, nil)}
	if said := engine.must(t, "--eval", reader, grammars, script).stdout; !strings.HasPrefix(said, "whole, ") {
		t.Errorf("install.ps1:\n%s", head(said))
	}
	// The reader does see what is missing.
	if said := engine.must(t, "--eval", reader, grammars, script, "finally {").stdout; !strings.Contains(said, "broken") {
		t.Errorf("install.ps1 without a brace is read as %s", head(said))
	}
}
