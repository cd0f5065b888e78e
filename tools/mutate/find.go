package main

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// mutant is a change to one file: it replaces the bytes from start to end. Its identity does not include its position, so that
// lines added above do not change it.
type mutant struct {
	File string // relative to the root of the module
	Func string // such as "(*Guard).Judge"; empty outside of functions
	Old  string // the changed text with a little context, on one line
	New  string
	Nth  int // number among those in Func with the same text

	line       int
	start, end int
	text       string
}

// id identifies the mutant in the file of results.
func (m *mutant) id() string {
	return fmt.Sprintf("%s %s: %s -> %s #%d", m.File, m.Func, m.Old, m.New, m.Nth)
}

// apply returns the source with the change.
func (m *mutant) apply(source []byte) []byte {
	return slices.Concat(source[:m.start], []byte(m.text), source[m.end:])
}

// order shuffles mutants deterministically: the position of each depends only on the seed and its identity, so that a sample
// stays the same while other code changes.
func order(mutants []*mutant, seed int64) {
	place := make(map[*mutant]uint64, len(mutants))
	for _, m := range mutants {
		sum := sha256.Sum256(fmt.Appendf(nil, "%d %s", seed, m.id()))
		place[m] = binary.BigEndian.Uint64(sum[:])
	}
	slices.SortFunc(mutants, func(a, b *mutant) int { return cmp.Compare(place[a], place[b]) })
}

// find lists the mutants of a file in the order of the text. name is the path from the root of the module.
func find(name string, source []byte) ([]*mutant, error) {
	files := token.NewFileSet()
	tree, err := parser.ParseFile(files, name, source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("parse: %w", err)
	}
	if ast.IsGenerated(tree) {
		return nil, nil
	}
	f := &finder{name: filepath.ToSlash(name), source: source, files: files, seen: make(map[string]int)}
	for _, d := range tree.Decls {
		f.function, f.signatures = "", nil
		if fn, ok := d.(*ast.FuncDecl); ok {
			f.function = functionName(fn)
		}
		f.walk(d)
	}
	slices.SortStableFunc(f.found, func(a, b *mutant) int { return cmp.Compare(a.start, b.start) })
	return f.found, nil
}

// functionName returns "Name" or "(*Type).Name".
func functionName(fn *ast.FuncDecl) string {
	if fn.Recv == nil || len(fn.Recv.List) == 0 {
		return fn.Name.Name
	}
	receiver, star := fn.Recv.List[0].Type, ""
	if p, ok := receiver.(*ast.StarExpr); ok {
		receiver, star = p.X, "*"
	}
	switch generic := receiver.(type) {
	case *ast.IndexExpr:
		receiver = generic.X
	case *ast.IndexListExpr:
		receiver = generic.X
	}
	if id, ok := receiver.(*ast.Ident); ok {
		return fmt.Sprintf("(%s%s).%s", star, id.Name, fn.Name.Name)
	}
	return fn.Name.Name
}

// finder collects the mutants of one file.
type finder struct {
	name     string
	source   []byte
	files    *token.FileSet
	function string
	seen     map[string]int
	found    []*mutant

	parents    []ast.Node
	signatures []*ast.FuncType // of the enclosing functions
}

func (f *finder) walk(root ast.Node) {
	ast.Inspect(root, func(n ast.Node) bool {
		if n == nil {
			last := f.parents[len(f.parents)-1]
			f.parents = f.parents[:len(f.parents)-1]
			if signature(last) != nil {
				f.signatures = f.signatures[:len(f.signatures)-1]
			}
			return true
		}
		if g, ok := n.(*ast.GenDecl); ok && (g.Tok == token.IMPORT || g.Tok == token.TYPE) {
			return false
		}
		if e, ok := n.(*ast.ExprStmt); ok && isLog(e) {
			return false
		}
		f.visit(n)
		f.parents = append(f.parents, n)
		if s := signature(n); s != nil {
			f.signatures = append(f.signatures, s)
		}
		return true
	})
}

func signature(n ast.Node) *ast.FuncType {
	switch n := n.(type) {
	case *ast.FuncDecl:
		return n.Type
	case *ast.FuncLit:
		return n.Type
	}
	return nil
}

// swaps maps operators to their replacements.
var swaps = map[token.Token][]token.Token{
	token.EQL: {token.NEQ}, token.NEQ: {token.EQL},
	token.LSS: {token.LEQ}, token.LEQ: {token.LSS}, token.GTR: {token.GEQ}, token.GEQ: {token.GTR},
	token.LAND: {token.LOR}, token.LOR: {token.LAND},
	token.ADD: {token.SUB}, token.SUB: {token.ADD}, token.MUL: {token.QUO}, token.QUO: {token.MUL}, token.REM: {token.MUL},
	token.SHL: {token.SHR}, token.SHR: {token.SHL}, token.AND: {token.OR}, token.OR: {token.AND},
	token.ADD_ASSIGN: {token.SUB_ASSIGN}, token.SUB_ASSIGN: {token.ADD_ASSIGN},
	token.INC: {token.DEC}, token.DEC: {token.INC},
}

func (f *finder) visit(n ast.Node) {
	switch n := n.(type) {
	case *ast.BinaryExpr:
		f.operator(n, n.Op, n.OpPos)
	case *ast.AssignStmt:
		f.operator(n, n.Tok, n.TokPos)
		if n.Tok != token.DEFINE {
			f.remove(n)
		}
	case *ast.IncDecStmt:
		f.operator(n, n.Tok, n.TokPos)
		f.remove(n)
	case *ast.UnaryExpr:
		if n.Op == token.NOT {
			f.replace(n, n.OpPos, n.OpPos+1, "")
		}
	case *ast.BasicLit:
		f.constant(n)
	case *ast.Ident:
		if other, ok := map[string]string{"true": "false", "false": "true"}[n.Name]; ok && !f.besideError() {
			f.replace(f.around(n), n.Pos(), n.End(), other)
		}
	case *ast.IfStmt:
		f.negate(n.Cond)
	case *ast.ForStmt:
		if n.Cond != nil {
			f.negate(n.Cond)
		}
	case *ast.SwitchStmt:
		if n.Tag == nil {
			for _, c := range n.Body.List {
				for _, e := range c.(*ast.CaseClause).List {
					f.negate(e)
				}
			}
		}
	case *ast.ExprStmt:
		f.remove(n)
	case *ast.DeferStmt, *ast.GoStmt, *ast.SendStmt:
		f.remove(n)
	case *ast.BranchStmt:
		if n.Tok != token.FALLTHROUGH {
			f.remove(n)
		}
	case *ast.ReturnStmt:
		f.results(n)
	}
}

func (f *finder) operator(n ast.Node, op token.Token, at token.Pos) {
	for _, other := range swaps[op] {
		f.replace(n, at, at+token.Pos(len(op.String())), other.String())
	}
}

// negate inverts a condition. Comparisons for equality are inverted by swaps instead.
func (f *finder) negate(e ast.Expr) {
	switch e := e.(type) {
	case *ast.UnaryExpr:
		if e.Op == token.NOT {
			return
		}
	case *ast.BinaryExpr:
		if e.Op == token.EQL || e.Op == token.NEQ {
			return
		}
	case *ast.Ident:
		if e.Name == "true" || e.Name == "false" {
			return
		}
	}
	f.replace(e, e.Pos(), e.End(), "!("+f.slice(e)+")")
}

// besideError reports whether the visited value is returned together with an error, and so has no meaning.
func (f *finder) besideError() bool {
	n, ok := f.parent(0).(*ast.ReturnStmt)
	if !ok || len(n.Results) < 2 || len(f.signatures) == 0 {
		return false
	}
	declared := f.signatures[len(f.signatures)-1].Results
	if declared == nil || len(declared.List) == 0 {
		return false
	}
	last, ok := declared.List[len(declared.List)-1].Type.(*ast.Ident)
	return ok && last.Name == "error" && f.slice(n.Results[len(n.Results)-1]) != "nil"
}

// constant increments a number. Texts are not changed: most are for people.
func (f *finder) constant(n *ast.BasicLit) {
	if f.besideError() {
		return
	}
	switch n.Kind {
	case token.INT:
		if v, err := strconv.ParseUint(n.Value, 0, 63); err == nil {
			f.replace(f.around(n), n.Pos(), n.End(), strconv.FormatUint(v+1, 10))
		}
	case token.FLOAT:
		f.replace(f.around(n), n.Pos(), n.End(), "("+n.Value+"+1)")
	}
}

// remove removes a statement.
func (f *finder) remove(n ast.Node) {
	switch p := f.parent(0).(type) {
	case *ast.ForStmt, *ast.IfStmt, *ast.SwitchStmt: // an init or post statement
		return
	case *ast.CommClause:
		if p.Comm == n { // the communication of a select
			return
		}
	}
	f.add(n.Pos(), n.Pos(), n.End(), f.slice(n), "removed", "")
}

// isLog reports whether a statement logs.
func isLog(n *ast.ExprStmt) bool {
	call, ok := n.X.(*ast.CallExpr)
	if !ok {
		return false
	}
	method, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || !slices.Contains([]string{"Debug", "Info", "Warn", "Error"}, method.Sel.Name) {
		return false
	}
	switch log := method.X.(type) {
	case *ast.Ident:
		return strings.EqualFold(log.Name, "log") || strings.EqualFold(log.Name, "logger")
	case *ast.SelectorExpr:
		return strings.EqualFold(log.Sel.Name, "log") || strings.EqualFold(log.Sel.Name, "logger")
	}
	return false
}

// results changes the returned values, depending on the declared types.
func (f *finder) results(n *ast.ReturnStmt) {
	if len(f.signatures) == 0 {
		return
	}
	var types []ast.Expr
	if declared := f.signatures[len(f.signatures)-1].Results; declared != nil {
		for _, field := range declared.List {
			for range max(len(field.Names), 1) {
				types = append(types, field.Type)
			}
		}
	}
	if len(types) != len(n.Results) {
		return // a bare return, or the results of a call
	}
	for i, e := range n.Results {
		if other := otherResult(types[i], f.slice(e)); other != "" {
			f.replace(n, e.Pos(), e.End(), other)
		}
	}
}

// otherResult returns another value of a type, or "" if that requires more knowledge.
func otherResult(t ast.Expr, value string) string {
	other := ""
	switch t := t.(type) {
	case *ast.StarExpr, *ast.MapType, *ast.FuncType, *ast.ChanType:
		other = "nil"
	case *ast.ArrayType:
		if t.Len == nil {
			other = "nil"
		}
	case *ast.Ident:
		switch t.Name {
		case "bool":
			if value == "true" || value == "false" {
				return "" // a constant
			}
			return "!(" + value + ")"
		case "error":
			other = "nil"
		case "string":
			other = `""`
		case "int", "int64", "uint64", "float64":
			if value[0] >= '0' && value[0] <= '9' {
				return ""
			}
			other = "0"
		}
	}
	if value == other {
		return ""
	}
	return other
}

// parent returns the node around the visited one; up 1 means the next one.
func (f *finder) parent(up int) ast.Node {
	if i := len(f.parents) - 1 - up; i >= 0 {
		return f.parents[i]
	}
	return nil
}

// longest is the maximum length of the text shown around a constant.
const longest = 100

// around returns the node in which to show a small change.
func (f *finder) around(n ast.Node) ast.Node {
	for up := range 2 {
		switch p := f.parent(up).(type) {
		case ast.Expr, *ast.AssignStmt, *ast.ReturnStmt, *ast.ValueSpec, *ast.IncDecStmt:
			if p.End()-p.Pos() > longest {
				return n
			}
			if _, pair := p.(*ast.KeyValueExpr); !pair || up == 0 {
				return p
			}
		}
	}
	return n
}

func (f *finder) offset(p token.Pos) int { return f.files.Position(p).Offset }

func (f *finder) slice(n ast.Node) string {
	return string(f.source[f.offset(n.Pos()):f.offset(n.End())])
}

// replace adds a mutant that is shown within a node.
func (f *finder) replace(shown ast.Node, from, to token.Pos, text string) {
	before := string(f.source[f.offset(shown.Pos()):f.offset(from)])
	after := string(f.source[f.offset(to):f.offset(shown.End())])
	f.add(from, from, to, f.slice(shown), before+text+after, text)
}

func (f *finder) add(at, from, to token.Pos, was, becomes, text string) {
	m := &mutant{
		File: f.name, Func: f.function, Old: oneLine(was), New: oneLine(becomes),
		line: f.files.Position(at).Line, start: f.offset(from), end: f.offset(to), text: text,
	}
	key := m.id()
	m.Nth = f.seen[key]
	f.seen[key]++
	f.found = append(f.found, m)
}

// oneLine puts a text on one line. It does not shorten it, because it is part of the identity.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
