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

// The sizes of windows.
var (
	desk  = browser.Options{Width: 1280, Height: 900}
	night = browser.Options{Width: 1280, Height: 900, Dark: true}
	phone = browser.Options{Width: 390, Height: 844, Phone: true}
)

// picture is a page to take.
type picture struct {
	name    string
	options browser.Options
	url     string
	ready   string // an expression that is true when the page is ready
	height  int    // maximum; 0 means the whole page
}

// shoot takes all pictures.
func (s *stage) shoot(ctx context.Context, b *browser.Browser, out string) error {
	url, hosts := "http://"+s.support, "https%3A%2F%2F"
	calm := []picture{
		{"console", desk, url + "/", "document.querySelector('.problems')", 0},
		{"console-dark", night, url + "/", "document.querySelector('.problems')", 1250},
		{"console-phone", phone, url + "/", "document.querySelector('.problems')", 2000},
		{"console-fleet", desk, url + "/fleet", "document.querySelector('h1')", 0},
		{"console-object", desk, url + "/object?kind=Ingress&namespace=checkout&name=express", "document.querySelector('.answer')", 0},
		{"console-request", desk, url + "/request?url=" + hosts + "api-catalog.shop.example.org%2Fv2%2Fitems&method=GET", "document.querySelector('.answer')", 0},
		{"shadow", desk, s.sidecar + "/shadow?format=html", "document.querySelector('.entry')", 1250},
	}
	for _, p := range calm {
		if err := s.take(ctx, b, p, out); err != nil {
			return err
		}
	}
	if err := s.takeClient(ctx, b, out); err != nil {
		return err
	}
	for _, ref := range lost(2) {
		s.cluster.Delete(ref)
	}
	for _, p := range []picture{
		{"console-held", desk, url + "/", "document.querySelector('#guard .counts')", 1050},
		{"guard-held", desk, url + "/guard/held?format=html", "document.querySelector('.entry')", 1250},
	} {
		if err := s.take(ctx, b, p, out); err != nil {
			return err
		}
	}
	return nil
}

// takeClient takes the page of a client, if the server knows a fleet.
func (s *stage) takeClient(ctx context.Context, b *browser.Browser, out string) error {
	page, err := b.NewPage(ctx, desk)
	if err != nil {
		return err
	}
	if err := page.Open(ctx, "http://"+s.support+"/fleet"); err != nil {
		return err
	}
	var link string
	if err := page.Eval(ctx, "[...document.querySelectorAll('#clients table a')].find(a => a.innerText === 'skipper-ingress-1')?.href ?? ''", &link); err != nil || link == "" {
		return err
	}
	return s.take(ctx, b, picture{"console-client", desk, link, "document.querySelector('.figures')", 0}, out)
}

// take takes one picture.
func (s *stage) take(ctx context.Context, b *browser.Browser, p picture, out string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	page, err := b.NewPage(ctx, p.options)
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
