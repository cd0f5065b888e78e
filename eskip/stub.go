package eskip

import (
	"net/http"
	"regexp"
)

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
