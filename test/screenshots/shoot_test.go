package screenshots

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/routesrv/routesrv/test/browser"
)

// Sizes of the window.
var (
	desk  = browser.Options{Width: 1280, Height: 900}
	phone = browser.Options{Width: 390, Height: 844, Phone: true}
)

// picture is a page to take.
type picture struct {
	name   string
	url    string
	ready  string // an expression that is true when the page is ready
	height int    // maximum; 0 means the whole page
	window browser.Options
}

// shoot takes all pictures.
func (s *stage) shoot(ctx context.Context, b *browser.Browser, out string) error {
	url := "http://" + s.support
	calm := []picture{
		{"console", url + "/", "document.querySelector('.problems')", 0, desk},
		{"console-phone", url + "/", "document.querySelector('.problems')", 1100, phone},
		{"console-fleet", url + "/fleet", "document.querySelector('h1')", 0, desk},
	}
	for _, p := range calm {
		if err := s.take(ctx, b, p, out); err != nil {
			return err
		}
	}
	for _, ref := range lost(2) {
		s.cluster.Delete(ref)
	}
	return s.take(ctx, b, picture{"console-held", url + "/", "document.querySelector('#guard .accept')", 1050, desk}, out)
}

// take takes one picture.
func (s *stage) take(ctx context.Context, b *browser.Browser, p picture, out string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	page, err := b.NewPage(ctx, p.window)
	if err != nil {
		return err
	}
	for { // some pages update themselves, others are reopened
		if err := page.Open(ctx, p.url); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		short, done := context.WithTimeout(ctx, 2*time.Second)
		err := page.Until(short, p.ready)
		done()
		if err == nil {
			break
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	raw, err := page.Screenshot(ctx, p.height)
	if err != nil {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	path := filepath.Join(out, p.name+".png")
	log.Printf("%s: %d kB", path, len(raw)/1000)
	return os.WriteFile(path, raw, 0o644)
}
