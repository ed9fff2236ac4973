package trigram

import (
	"slices"

	"github.com/async-crud-mcp/async-crud-mcp/internal/search/linematch"
)

// Query is what a search has to find: an AND of ORs of literals, as triples.
type Query struct {
	clauses [][]term // AND of ORs
}

// term is an AND: all of it is in a unit that holds the literal.
type term []atom

// atom is an OR of triples.
type atom []uint32

const (
	// maxAtoms bounds what is asked of one literal. More hardly narrow it further.
	maxAtoms = 24
	// shortWord is the length up to which the ends of a word are asked for.
	shortWord = 5
)

// nonWords are the symbols that may stand beside a word.
var nonWords = func() (of []uint32) {
	for s := uint32(blank); s < symbols; s++ {
		of = append(of, s)
	}
	return of
}()

// NewQuery makes a query of what a pattern requires, see
// [linematch.Matcher.Required].
func NewQuery(required [][]linematch.Literal) Query {
	var q Query
	for _, set := range required {
		terms := make([]term, len(set))
		for i, l := range set {
			terms[i] = termOf(l)
		}
		if !slices.ContainsFunc(terms, func(t term) bool { return len(t) == 0 }) {
			q.clauses = append(q.clauses, terms)
		}
	}
	return q
}

// Narrows reports whether the query rules anything out. If not, every file is a
// candidate.
func (q Query) Narrows() bool { return len(q.clauses) > 0 }

func termOf(l linematch.Literal) term {
	// The places of the text, each with the symbols that may stand there.
	var places [][]uint32
	put := func(s uint32) {
		if n := len(places); s == blank && n > 0 && len(places[n-1]) == 1 && places[n-1][0] == blank {
			return // a run of blanks is one
		}
		places = append(places, []uint32{s})
	}
	if l.Left == linematch.LineEdge {
		put(blank)
	}
	for _, b := range []byte(l.Text) {
		put(uint32(symbolOf[b]))
	}
	if l.Right == linematch.LineEdge {
		put(blank)
	}
	if len(l.Text) <= shortWord {
		if l.Left == linematch.NonWord {
			places = slices.Insert(places, 0, nonWords)
		}
		if l.Right == linematch.NonWord {
			places = append(places, nonWords)
		}
	}
	var t term
	for i := 0; i+2 < len(places); i++ {
		a, b, c := places[i], places[i+1], places[i+2]
		if len(a)*len(c) > len(nonWords) {
			continue // one letter between two ends
		}
		var or atom
		for _, x := range a {
			for _, z := range c {
				or = append(or, x<<12|b[0]<<6|z)
			}
		}
		if !slices.ContainsFunc(t, func(o atom) bool { return slices.Equal(o, or) }) {
			t = append(t, or)
		}
		if len(t) == maxAtoms {
			break
		}
	}
	return t
}
