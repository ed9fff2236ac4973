package catalog

import "github.com/async-crud-mcp/async-crud-mcp/internal/tool"

// Library returns every resource and prompt in listing order.
func Library(e Engines) ([]*tool.Resource, []*tool.Prompt) {
	resources := []*tool.Resource{
		FileResource(e.Files),
		JobResource(e.Shell),
		AliasCatalogResource(e.Shell),
		AliasResource(e.Shell),
	}
	return resources, []*tool.Prompt{
		AliasSuggest(),
		AliasConfirm(e.Shell),
	}
}
