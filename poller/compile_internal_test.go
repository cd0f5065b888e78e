package poller

import (
	"testing"

	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/kube"
)

func TestMemoryOfACompilerThatPanickedIsNotTrusted(t *testing.T) {
	c, err := NewCompiler(rules.Options{}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	before := c.memory
	c.Compile(&kube.Snapshot{})
	if c.memory != before {
		t.Error("a compiler without fault was replaced")
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic did not reach the caller")
			}
		}()
		c.Compile(&kube.Snapshot{Intent: kube.Intent{Ingresses: []*kube.Ingress{nil}}})
	}()
	if c.memory == before {
		t.Error("the compiler was not replaced")
	}
}
