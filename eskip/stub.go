package eskip

import (
	"io"
	"net/http"
	"regexp"
)

func Parse(code string) ([]*Route, error)                     { return nil, nil }
func ParseFilters(f string) ([]*Filter, error)                { return nil, nil }
func ParsePredicates(p string) ([]*Predicate, error)          { return nil, nil }
func MustParse(code string) []*Route                          { return nil }
func MustParseFilters(s string) []*Filter                     { return nil }
func MustParsePredicates(s string) []*Predicate               { return nil }
func Canonical(r *Route) *Route                               { return nil }
func CanonicalList(l []*Route) []*Route                       { return nil }
func Copy(r *Route) *Route                                    { return nil }
func CopyFilter(f *Filter) *Filter                            { return nil }
func CopyFilters(f []*Filter) []*Filter                       { return nil }
func CopyPredicate(p *Predicate) *Predicate                   { return nil }
func CopyPredicates(p []*Predicate) []*Predicate              { return nil }
func CopyRoutes(r []*Route) []*Route                          { return nil }
func Eq(r ...*Route) bool                                     { return false }
func EqLists(r ...[]*Route) bool                              { return false }
func (f *Filter) Copy() *Filter                               { return nil }
func (p *Predicate) Copy() *Predicate                         { return nil }
func (r *Route) Copy() *Route                                 { return nil }
func (f *Filter) MarshalJSON() ([]byte, error)                { return nil, nil }
func (p *Predicate) MarshalJSON() ([]byte, error)             { return nil, nil }
func (r *Route) MarshalJSON() ([]byte, error)                 { return nil, nil }
func (r *Route) UnmarshalJSON(b []byte) error                 { return nil }
func (f *Filter) String() string                              { return "" }
func (p *Predicate) String() string                           { return "" }
func (r *Route) String() string                               { return "" }
func (r *Route) Print(p PrettyPrintInfo) string               { return "" }
func AppendRoute(dst []byte, r *Route) []byte                 { return dst }
func AppendExpr(dst []byte, r *Route) ([]byte, int)           { return dst, 0 }
func Fprint(w io.Writer, p PrettyPrintInfo, routes ...*Route) {}
func Print(p PrettyPrintInfo, routes ...*Route) string        { return "" }
func String(routes ...*Route) string                          { return "" }

type PrettyPrintInfo struct {
	Pretty    bool
	IndentStr string
}
type DefaultFilters struct{ Prepend, Append []*Filter }

func (df *DefaultFilters) Do(routes []*Route) []*Route { return routes }

type Editor struct {
	reg  *regexp.Regexp
	repl string
}
type Clone struct {
	reg  *regexp.Regexp
	repl string
}

func NewEditor(reg *regexp.Regexp, repl string) *Editor            { return &Editor{reg, repl} }
func NewClone(reg *regexp.Regexp, repl string) *Clone              { return &Clone{reg, repl} }
func (e *Editor) Do(routes []*Route) []*Route                      { return routes }
func (c *Clone) Do(routes []*Route) []*Route                       { return routes }
func (e *Editor) DoWithErrors(routes []*Route) ([]*Route, []error) { return routes, nil }
func (c *Clone) DoWithErrors(routes []*Route) ([]*Route, []error)  { return routes, nil }

type fwdBackend struct{ url string }

func ForwardPreProcessor(s string) *fwdBackend    { return &fwdBackend{s} }
func (f *fwdBackend) Do(routes []*Route) []*Route { return routes }

type TemplateContext interface {
	PathParam(string) string
	Request() *http.Request
	Response() *http.Response
}
type TemplateGetter func(string) string
type Template struct{ text string }

func NewTemplate(template string) *Template                         { return &Template{template} }
func (t *Template) Apply(get TemplateGetter) string                 { return "" }
func (t *Template) ApplyContext(ctx TemplateContext) (string, bool) { return "", false }
